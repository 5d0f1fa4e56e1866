"""The wrapped sbatch: it runs the real sbatch, or submits a chain's first link if the call asks so.

If anything goes wrong here before the submission, the real sbatch runs and one line says why.
Nothing is imported that a plain call does not need.
"""

import os

from mirage_slurm.wrapper import invocation
from mirage_slurm.wrapper.options import MIRAGE

ASKS_NOTHING = frozenset(["autocomplete", "help", "usage", "version"])
HELP = "--mirage-help"


def main(argv):
    _restore_process()
    real = invocation.find_real_sbatch(argv[0], os.environ)
    if real is None:
        invocation.print_error("mirage: no sbatch found on PATH nor in /usr/bin")
        return 127
    call = invocation.Call(real, argv[1:], os.environ)
    try:
        return _handle_call(call)
    except invocation.Refused as refusal:
        invocation.print_error("sbatch: error: mirage: %s; nothing was submitted" % (refusal,))
        return _get_error_code(call.environ)
    except invocation.TooLarge:  # as slurmctld says it
        invocation.print_error(
            "sbatch: error: Batch job submission failed:"
            " Pathname of a file, directory or other parameter too long"
        )
        return _get_error_code(call.environ)
    except invocation.NotAsked as why:
        invocation.report(call, "%s; submitted without a chain" % (why,))
        return invocation.exec_sbatch(call)
    except Exception as error:
        if call.code is not None:  # the job is submitted: never submit twice
            invocation.report(call, "%s: %s" % (type(error).__name__, error))
            return call.code
        invocation.report(call, "%s: %s; submitted without a chain" % (type(error).__name__, error))
        return invocation.exec_sbatch(call)


def _restore_process():
    """Take back what Python does to a process before it runs a line: sbatch inherits it."""
    import _signal  # the built-in one: loading `signal` costs 2 ms

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    if os.environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):  # PEP 538: for none and for C
        _restore_variable(b"LC_CTYPE")


def _restore_variable(name):
    """Set a variable back to what this process was started with."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = [entry for entry in file.read().split(b"\0") if entry.startswith(name + b"=")]
    except OSError:
        return
    if entries:
        os.environb[name] = entries[0][len(name) + 1 :]
    else:
        del os.environb[name]


def _get_error_code(environ):
    """Return the exit code that sbatch would have for an error of its own."""
    code = environ.get("SLURM_EXIT_ERROR", "")
    return int(code) & 255 or 1 if code.isdigit() else 1


def _handle_call(call):
    reading, environ = call.reading, call.environ
    if environ.get("MIRAGE_DISABLE", "0") not in ("", "0"):
        return invocation.exec_sbatch(call)
    if not reading.sure:
        reading = call.reading = call.read_words(reading.words)
    if HELP in reading.list_own_words():
        return _print_help()
    submits = not ASKS_NOTHING.intersection(o.name for o in reading.options)
    head = invocation.read_head(call) if submits else b""
    if submits and environ.get("MIRAGE_LINK"):
        from mirage_slurm.wrapper import resubmission

        link = resubmission.find_link(environ)
        if link is not None and not reading.has_option("test-only"):
            return resubmission.submit_inside(call, link, head)
    if submits and environ.get("SLURM_MIRAGE_PLAIN") and not reading.has_option("test-only"):
        from mirage_slurm.wrapper import resubmission

        return resubmission.submit_below(call, head)
    if invocation.CARRIER_MARK in head:
        return invocation.exec_sbatch(call)
    _report_script_words(call, head)
    if not invocation.has_request(reading, environ, head):
        return invocation.exec_sbatch(call)
    return _submit_request(call, head)


def _submit_request(call, head):
    """Submit a chain if this call asks for a possible one, else submit the plain job."""
    from mirage_slurm.wrapper.settings import read_settings

    reading = call.reading
    settings = read_settings(call, head)
    # No option is found after a word that is not understood: a chain's option may stand there.
    may_hide_request = reading.not_understood is not None and _has_own_option(reading)
    if (settings is None and not may_hide_request) or not _can_carry(call):
        return invocation.exec_sbatch(call)
    if reading.script is None and reading.get_value("wrap") is None:  # it is on standard input
        head = invocation.cut_leading_block(invocation.read_script(call))
        settings = read_settings(call, head)
        if invocation.CARRIER_MARK in head:
            return invocation.exec_sbatch(call)
    from mirage_slurm.wrapper import eligibility, submission

    eligibility.check_eligibility(reading, call.directives, call.environ, head, settings.links)
    return submission.submit_chain(call, settings)


def _has_own_option(reading):
    return any(word.startswith("--" + MIRAGE) for word in reading.list_own_words())


def _report_script_words(call, head):
    """Tell the user if an option of Mirage's stands after the script: then the script gets it."""
    reading = call.reading
    # With `#SBATCH --mirage-...` lines the SPANK plugin calls the wrapper a second time.
    if reading.script is None or b"--mirage-" in head:
        return
    for word in reading.words[reading.script + 1 :]:
        if word.startswith("--" + MIRAGE):
            quoted = invocation.format_word(word)
            invocation.report(
                call,
                "%s stands behind the script: the script gets the option, not sbatch" % (quoted,),
            )
            return


def _print_help():
    from mirage_slurm.wrapper import usage

    os.write(1, usage.render_help().encode("ascii"))
    return 0


def _can_carry(call):
    """Return whether this call can be carried; if not, the real sbatch has its own words for it."""
    reading = call.reading
    if reading.has_option("test-only") or ASKS_NOTHING.intersection(
        option.name for option in reading.options
    ):
        return False
    if reading.not_understood is not None:
        quoted = invocation.format_word(reading.not_understood)
        invocation.report(call, "sbatch does not list the option %s: no chain is made" % (quoted,))
        return False
    if reading.get_value("wrap") is not None:
        return reading.script is None
    if reading.script is None or call.path is not None:
        return True
    if os.path.exists(reading.words[reading.script]):
        invocation.report(call, "the script is not a plain file: no chain is made")
    return False
