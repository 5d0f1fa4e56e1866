"""Tell the Mirage service that a job has ended: mirage_push.py JOB. A second in all, or not at all.

MUNGE or the service's socket proves who runs this: on the controller SlurmUser does.
Standard library, Python 3.6.
"""

import os
import signal
import sys

LIMIT_S = 1.0
PATH = "/api/v1/completions"
PLUGIN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def main(argv):
    if len(argv) != 2 or not argv[1].isdigit():
        return "usage: mirage_push.py JOB"
    # SIGALRM's default action ends the process, and nothing here can delay it: slurmctld, or a shell
    # between, may ignore the signal or block it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    sys.path.insert(0, PLUGIN)
    from mirage_slurm.client import request

    body = ('{"job_id": %s}' % (argv[1],)).encode("ascii")
    try:
        request.send_request("POST", PATH, body, os.environ)
    except (OSError, request.Unreachable) as error:
        return "mirage_push: %s" % (error,)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
