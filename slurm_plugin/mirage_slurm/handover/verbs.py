"""`mirage-link handover VERB`: the hand-over for scripts that are not Python.

The verbs use the module that training code imports, since a second implementation of the lease
could differ. They need only /usr/bin/python3.
"""

import argparse
import os
import sys
import time

from mirage_slurm.handover import lease_files
from mirage_slurm.handover.handover import (
    STYLES,
    Asker,
    Handover,
    HandoverError,
    LeaseLost,
    NotALink,
)

DONE, FAILED, NOT_OURS, TIMED_OUT = 0, 1, 3, 4

EPILOG = """In a link's script:
  mirage-link handover wait || exit 0       # until this link alone may write
  train & trainer=$!
  (mirage-link handover wait --asked && kill -USR1 $trainer) &   # save, then end
  wait $trainer; mirage-link handover release
A server:
  serve & server=$!; until curl -sf localhost:$PORT/health; do sleep 1; done
  mirage-link handover ready --address "$(hostname):$PORT" || exit 0
  mirage-link handover release --when-asked --drain 30; kill $server

Exit codes: 0 done, 1 failed, 2 wrong use, 3 not this link's turn (the chain is done, a later link
has the lease, or this job is no link), 4 timed out. The result of each link stands in
$MIRAGE_DIR/handover/verdict/LINK.
"""


def main(words):
    arguments = _build_parser().parse_args(words)
    try:
        return arguments.run(arguments)
    except (LeaseLost, NotALink) as error:
        return _report(error, NOT_OURS)
    except (HandoverError, OSError) as error:
        return _report(error, FAILED)
    except KeyboardInterrupt:
        return 130


def wait(arguments):
    """wait: wait until this link holds the lease; with --asked, until the successor asks for it."""
    handover = _make_handover(arguments)
    if arguments.asked:
        return _wait_until_asked(handover)
    return _begin_turn(handover, arguments, None)


def ready(arguments):
    """ready: say that this server is healthy, take the lease, and publish the address."""
    arguments.style = arguments.style or lease_files.read_style(os.environ) or "serve"
    return _begin_turn(_make_handover(arguments), arguments, arguments.address)


def release(arguments):
    """release: release the lease after saving; with --when-asked, wait for a request first."""
    handover = _make_handover(arguments)
    while True:
        if arguments.when_asked:
            _wait_until_asked(handover)
        elif not handover.adopt():
            raise LeaseLost("this job does not hold the lease")
        if handover.release(arguments.drain):
            return DONE
        if not arguments.when_asked:
            return _report("no link took the lease: this link holds it again", TIMED_OUT)


def request(arguments):
    """request: ask the holder of the lease to save and release it; works from anywhere."""
    leases = lease_files.Leases(_find_chain(arguments))
    first_lease = leases.read_newest()
    if first_lease is None or first_lease.free:
        return _report("nobody holds the lease", NOT_OURS)
    requester = Asker(leases, "by-hand", arguments.patience)
    try:
        while requester.ask():
            lease = leases.read_newest()
            if lease.free or lease.number != first_lease.number:
                return DONE
            time.sleep(_get_poll_s())
    finally:
        requester.withdraw()
    return _report("link %d has not released the lease" % (first_lease.holder.link,), TIMED_OUT)


def status(arguments):
    """status: show who holds the lease, who asks, the newest checkpoint, verdicts, address."""
    leases = lease_files.Leases(_find_chain(arguments))
    lease = leases.read_newest()
    if lease is None:
        print("lease\tnone yet")
    else:
        holder_text = "free, last held by" if lease.free else "held by"
        print(
            "lease\t%d %s link %d job %s run %d"
            % ((lease.number, holder_text) + tuple(lease.holder))
        )
        _print_line("checkpoint", leases.read_ready(lease.number))
    _print_line("address", lease_files.read_file(leases.get_path("address")))
    for folder, title in (("request", "asks"), ("verdict", "verdict")):
        names = [n for n in os.listdir(leases.get_path(folder)) if not n.startswith(".")]
        for name in sorted(names, key=lambda name: (len(name), name)):
            _print_line(
                "%s of link %s" % (title, name),
                lease_files.read_file(leases.get_path(folder, name)),
            )
    return DONE


def _begin_turn(handover, arguments, address):
    if handover.begin(address):
        return DONE
    verdict = (
        lease_files.read_file(
            os.path.join(_find_chain(arguments), "handover", "verdict", _get_link())
        )
        or ""
    )
    return _report(verdict.strip(), TIMED_OUT if verdict.startswith("timed-out") else NOT_OURS)


def _wait_until_asked(handover):
    if not handover.adopt():
        raise LeaseLost("this job does not hold the lease")
    while not handover.should_release():
        time.sleep(_get_poll_s())
    return DONE


def _make_handover(arguments):
    chain = _find_chain(arguments)
    return Handover(
        chain,
        style=arguments.style,
        patience_s=arguments.patience,
        on_timeout=arguments.on_timeout,
        takeover_s=arguments.takeover,
        stale_s=arguments.stale,
        save_s=arguments.save,
    )


def _find_chain(arguments):
    chain = arguments.chain or os.environ.get("MIRAGE_DIR") or ""
    if not chain:
        raise HandoverError("name a chain: MIRAGE_DIR is not set here")
    if "/" not in chain:
        base = os.environ.get("MIRAGE_STATE_DIR")
        chain = os.path.join(base or os.path.expanduser("~/.local/state/mirage"), chain)
    return chain


def _get_link():
    return os.environ.get("MIRAGE_LINK") or "0"


def _get_poll_s():
    return float(os.environ.get("MIRAGE_HANDOVER_POLL_S") or 1.0)


def _print_line(title, text):
    if text and text.strip():
        printable = "".join(c if c.isprintable() else "?" for c in text.strip())
        print("%s\t%s" % (title, printable))


def _report(message, code):
    sys.stderr.write("mirage-link handover: %s\n" % (message,))
    return code


def _build_parser():
    parser = argparse.ArgumentParser(
        prog="mirage-link handover",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(metavar="VERB", dest="verb")
    verbs.required = True
    for run in (wait, ready, release, request, status):
        verb = verbs.add_parser(run.__name__, help=run.__doc__.split(": ", 1)[1])
        verb.set_defaults(run=run)
        verb.add_argument("chain", nargs="?", metavar="CHAIN", help="a chain id or directory")
        _add_options(verb)
        if run is wait:
            verb.add_argument("--asked", action="store_true", help="wait for a request instead")
        elif run is ready:
            verb.add_argument("--address", metavar="HOST:PORT", help="the server, for clients")
        elif run is release:
            verb.add_argument("--when-asked", action="store_true", help="first wait for a request")
            verb.add_argument("--drain", type=float, default=0.0, metavar="S",
                              help="serve S more after the new address")  # fmt: skip
    return parser


def _add_options(verb):
    verb.add_argument("--style", choices=STYLES)
    verb.add_argument("--on-timeout", choices=("wait", "exit"), default="wait")
    for name, seconds, what in (
        ("patience", 600.0, "withdraw an unanswered request after S seconds"),
        ("takeover", 60.0, "how long a released lease waits for the link that asked"),
        ("stale", 20.0, "ask Slurm if the holder's heartbeat stands still for S seconds"),
        ("save", 60.0, "count as asked S seconds before the time limit"),
    ):
        verb.add_argument("--" + name, type=float, default=seconds, metavar="S", help=what)
