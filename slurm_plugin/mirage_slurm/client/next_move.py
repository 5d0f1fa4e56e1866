"""Ask Mirage whether to submit a chain's next link now, and print `now` or `wait SECONDS`.

A link of mode `submit` runs this inside its job. Exit code 1: no service answered, or the answer
could be anybody's, and a link must not act on such an answer.
"""

import os
import sys

LIMIT_S = 10
MOST_S = 3600


def main(argv):
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the calling shell may ignore SIGALRM
    signal.alarm(LIMIT_S)  # ends this process; the link goes on as after any other failure
    try:
        print(format_answer(fetch_next_move(argv[1], os.environ)))
    except Exception as error:
        sys.stderr.write("mirage: the service was not reached (%s)\n" % (error,))
        return 1
    return 0


def fetch_next_move(chain_id, environ):
    """GET the chain's next move. Return the body of the answer."""
    from mirage_slurm.client import request

    path = "%s/%s/next" % (request.PATH, chain_id)
    answer = request.send_request("GET", path, b"", environ, acts_on_it=True)
    return answer.partition(b"\r\n\r\n")[2]


def format_answer(body):
    """Return the answer as `now` or `wait SECONDS`. Raises ValueError or KeyError for another body."""
    import json

    answer = json.loads(body.decode("utf-8"))
    if answer["submit_now"] is True:
        return "now"
    return "wait %d" % (max(1, min(MOST_S, int(answer["ask_again_s"]))),)
