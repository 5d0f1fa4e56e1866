#!/usr/bin/python3 -IS
"""Ask Mirage whether a chain's next link is to be submitted now: `now`, or `wait SECONDS`.

For links of mode `submit`, from inside the job. Exit code 1 where there is no answer.
"""

import os
import sys

LIMIT_S = 10
MOST_S = 3600


def main(argv):
    import signal

    sys.path.insert(0, os.path.dirname(os.path.realpath(argv[0])))
    signal.alarm(LIMIT_S)  # ends this process; whoever asked goes on as after any other failure
    try:
        print(understood(ask(argv[1], os.environ)))
    except Exception as error:
        sys.stderr.write("mirage: not reached (%s)\n" % (error,))
        return 1
    return 0


def ask(chain_id, environ):
    """GET the chain's next move; the body of the answer."""
    import mirage_register

    path = "%s/%s/next" % (mirage_register.PATH, chain_id)
    scheme, where, prefix = parts(mirage_register._url(environ))
    credential = mirage_register._credential(b"", environ, line="GET " + path)
    head = [
        "GET %s%s HTTP/1.0" % (prefix, path),
        "Host: %s" % (where,),
        "Authorization: MUNGE %s" % (credential,),
        "Accept: application/json",
    ]
    stream = mirage_register._connect(scheme, where)
    stream.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n")
    answer = b""
    while len(answer) < 65536:
        part = stream.recv(4096)
        if not part:
            break
        answer += part
    mirage_register._understand(answer)
    return answer.partition(b"\r\n\r\n")[2]


def parts(url):
    """Scheme, host and port, and the path before Mirage's own."""
    scheme, _, rest = url.partition("://")
    where, slash, prefix = rest.partition("/")
    return scheme, where, (slash + prefix).rstrip("/")


def understood(body):
    """The answer in a shell's words; ValueError where it is none."""
    import json

    said = json.loads(body.decode("utf-8"))
    if said["submit_now"] is True:
        return "now"
    return "wait %d" % (max(1, min(MOST_S, int(said["ask_again_s"]))),)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
