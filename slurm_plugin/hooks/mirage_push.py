"""Tell the Mirage service that a job has ended: mirage_push.py JOB. A second in all, or not at all.

Whoever runs it is shown by MUNGE: on the controller that is SlurmUser. Standard library, Python 3.6.
"""

import hashlib
import http.client
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

LIMIT_S = 1.0
PATH = "/api/v1/completions"
DEFAULT_URL = "http://127.0.0.1:6480"
CONFIGURATION = "/etc/mirage/client.conf"


def main(argv):
    if len(argv) != 2 or not argv[1].isdigit():
        return "usage: mirage_push.py JOB"
    # Its default act is to end the process: nothing of ours can hold that up.
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    body = ('{"job_id": %s}' % (argv[1],)).encode("ascii")
    try:
        status = post(service_url(os.environ), body)
    except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
        return "mirage_push: %s" % (error,)
    return 0 if status == 202 else "mirage_push: the service's answer was %d" % (status,)


def post(url, body):
    """The answer's status."""
    parts = urlsplit(url)
    https = parts.scheme == "https"
    made = http.client.HTTPSConnection if https else http.client.HTTPConnection
    connection = made(parts.netloc, timeout=LIMIT_S)
    headers = {"Content-Type": "application/json", "Authorization": "MUNGE " + credential(body)}
    connection.request("POST", parts.path.rstrip("/") + PATH, body, headers)
    return connection.getresponse().status


def credential(body):
    """What munge makes of the request's line and the body's hash."""
    payload = "POST %s %s" % (PATH, hashlib.sha256(body).hexdigest())
    path = os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin"
    told = subprocess.run(
        ["munge"],  # noqa: S607 - slurmctld's own PATH, then the system's
        input=payload.encode("ascii"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        env={"PATH": path, "LC_ALL": "C"},
    )
    return told.stdout.decode("ascii").strip()


def service_url(environ):
    if environ.get("MIRAGE_URL"):
        return environ["MIRAGE_URL"]
    try:
        with open(CONFIGURATION) as lines:
            for line in lines:
                name, equals, value = line.partition("=")
                if equals and name.strip() == "url":
                    return value.strip().strip("\"'")
    except OSError:
        pass
    return DEFAULT_URL


if __name__ == "__main__":
    sys.exit(main(sys.argv))
