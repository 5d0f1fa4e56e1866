"""Register a new chain with the Mirage service, within two seconds in all or not at all.

If that fails, a running link registers the chain later (planner/plan.py).
"""

import os

from mirage_slurm.client.credentials import read_to_end
from mirage_slurm.client.request import (
    LIMIT_S,
    Misread,
    ServiceRefused,
    Unreachable,
    post_chain,
)

RESERVE_S = 0.2  # part of the limit for all else that the wrapper does
TAKEN = b"taken"
NEW = ("max_returns", "style")  # fields that an older service may refuse; the newest first


def register_chain(chain_id, job, settings, environ):
    """POST the chain. MUNGE or SACK proves who submits it.

    Raises ServiceRefused if the service answers 4xx, Unreachable if none answers. A process of its
    own sends the request: a silent name server or munged cannot hold up the user.
    """
    import _signal

    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, LIMIT_S - RESERVE_S)  # SIGALRM ends it
            os.close(read_end)
            # A reader of our output must not wait for this process.
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            fields = _list_fields(chain_id, job, settings)
            os.write(write_end, _try_request(fields, chain_id, environ))
        finally:
            os._exit(0)
    os.close(write_end)
    answer = read_to_end(read_end)
    os.waitpid(child, 0)
    if answer != TAKEN:
        why = answer.decode("utf-8", "replace") or "no answer in %g s" % (LIMIT_S - RESERVE_S,)
        raise ServiceRefused(why) if answer[:1] == b"4" else Unreachable(why)


def _try_request(fields, chain_id, environ):
    """Send the request. Return TAKEN, or the reason of the failure in a line."""
    try:
        for name in [name for name in NEW if name in dict(fields)]:
            try:
                post_chain(chain_id, _format_body(fields), environ)
            except Misread:  # the service is older than this field, or than some styles
                fields = [field for field in fields if field[0] != name]
            else:
                return TAKEN
        post_chain(chain_id, _format_body(fields), environ)
    except (OSError, Unreachable) as error:
        return (getattr(error, "strerror", None) or str(error)).encode("utf-8", "replace")
    except Exception as error:
        return ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")
    return TAKEN


def build_body(chain_id, job, settings):
    """Build the registration's JSON, in one line, for a link that sends it later."""
    return _format_body(_list_fields(chain_id, job, settings))


def _format_body(fields):
    """JSON by hand: nothing in here needs escaping, and json costs 6 ms to load."""
    return ("{%s}" % ", ".join('"%s": %s' % field for field in fields)).encode("ascii")


def _list_fields(chain_id, job, settings):
    """List the fields of the registration as (name, value in JSON).

    Options that nobody asked for are left out, so that an older service understands the rest. The
    style is always sent, because its default has changed. So are the returns of style sequential,
    because links of older plugins give no nodes back.
    """
    fields = [
        ("chain_id", '"%s"' % (chain_id,)),
        ("job_id", "%d" % (job,)),
        ("links", "%d" % (settings.links,)),
        ("policy", "null" if settings.policy is None else '"%s"' % (settings.policy,)),
        (
            "overlap_price",
            "null" if settings.overlap_price is None else repr(settings.overlap_price),
        ),
    ]
    for name, field, value in (
        ("total", "total_s", settings.total_s),
        ("max-overlap", "max_overlap_s", settings.max_overlap_s),
        ("presubmit", "presubmit", '"%s"' % (settings.presubmit,)),
        ("mode", "mode", '"%s"' % (settings.mode,)),
        ("min-runtime", "min_runtime_s", settings.min_runtime_s),
    ):
        if name in settings.stated_names:
            fields.append((field, value))
    fields.append(("style", '"%s"' % (settings.style,)))
    if settings.style == "sequential":
        fields.append(("max_returns", settings.returns))
    return fields
