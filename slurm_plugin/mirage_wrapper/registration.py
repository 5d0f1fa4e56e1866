"""Tell the Mirage service of a new chain, within two seconds in all or not at all.

A running link tells the service later what could not be told then (mirage_plan.py).
"""

import os

from mirage_client import LIMIT_S, Misread, ServiceRefused, Unreachable, post_chain, read_to_end

RESERVE_S = 0.2  # of it for all that the wrapper does besides
TAKEN = b"taken"
NEW = ("max_returns", "style")  # an older service may take none of them; the newest first


def register_chain(chain_id, job, settings, environ):
    """POST the chain; whoever submitted it is shown by MUNGE.

    Raises ServiceRefused if the service answers 4xx, Unreachable if none answers. The request is
    sent in a process of its own: neither a name server nor munged, silent both, can hold up the user.
    """
    import _signal

    said, word = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, LIMIT_S - RESERVE_S)  # SIGALRM ends it
            os.close(said)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # whoever reads our output waits for us only
            fields = _list_fields(chain_id, job, settings)
            os.write(word, _try_request(fields, chain_id, environ))
        finally:
            os._exit(0)
    os.close(word)
    answer = read_to_end(said)
    os.waitpid(child, 0)
    if answer != TAKEN:
        why = answer.decode("utf-8", "replace") or "no answer in %g s" % (LIMIT_S - RESERVE_S,)
        raise ServiceRefused(why) if answer[:1] == b"4" else Unreachable(why)


def _try_request(fields, chain_id, environ):
    """Send the request and return its result in a line."""
    try:
        for name in [name for name in NEW if name in dict(fields)]:
            try:
                post_chain(chain_id, _format_body(fields), environ)
            except Misread:  # by a service that is older than the name, or than some styles
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
    """List the fields that are told of a chain, in JSON's words.

    Options that nobody asked for are left out, so that an older service understands the rest. The
    style is always told, for its default was another one before; so are the returns of a style that
    has some, for links of older plugins have none.
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
        if name in settings.asked:
            fields.append((field, value))
    fields.append(("style", '"%s"' % (settings.style,)))
    if settings.style == "sequential":
        fields.append(("max_returns", settings.returns))
    return fields
