"""The wrapped sbatch: plain sbatch for all who ask for nothing, a chain's first link for the rest.

Whatever goes wrong here before the submission, the real sbatch is run and one line says why.
Nothing is imported that a plain call does not need.
"""

import os
import sys

import mirage_options
import mirage_request

ASKS_NOTHING = frozenset(["autocomplete", "help", "usage", "version"])
HELP = "--mirage-help"
HEAD_BYTES = 65536
LARGEST = 64 << 20  # of a script; slurmctld takes 4 MiB unless the site set max_script_size


class TooLarge(Exception):
    """A script that no slurmctld takes, or that has no end."""


class Call(object):
    """One call of sbatch: its words, and its script as far as it was found."""

    __slots__ = ("code", "environ", "known", "path", "piped", "reading", "real", "said")

    def __init__(self, real, words, environ):
        self.real = real
        self.code = None  # the real sbatch's exit code, once it has submitted a chain's first link
        self.known = None  # the options of the real sbatch, once it was asked
        self.reading = mirage_options.read(words)
        self.said = mirage_options.Reading([])  # the script's own directives, once they are read
        self.environ = environ
        self.path = None
        self.piped = None  # what was read from a pipe, to be given on

    def read(self, words):
        """Read sbatch's words. Where our table leaves a doubt, by the options of the real sbatch."""
        reading = mirage_options.read(words)
        if reading.sure:
            return reading
        if self.known is None:
            import mirage_ask

            self.known = mirage_ask.known(self.real, self.environ)
        return mirage_options.read(words, self.known)

    def quiet(self):
        both = (self.reading, self.said)
        return any(r.has("quiet") or r.has("parsable") for r in both)

    def comment(self):
        """The comment that the job would have: an option goes before a directive."""
        given = self.reading.last("comment")
        return (self.said.last("comment") or "") if given is None else given


def main(argv):
    _undo_python()
    real = find_real(argv[0], os.environ)
    if real is None:
        complain("mirage: no sbatch found on PATH nor in /usr/bin")
        return 127
    call = Call(real, argv[1:], os.environ)
    try:
        return _decide(call)
    except mirage_request.Refused as refusal:
        complain("sbatch: error: mirage: %s; nothing was submitted" % (refusal,))
        return _error_code(call.environ)
    except TooLarge:  # as slurmctld says it
        complain(
            "sbatch: error: Batch job submission failed:"
            " Pathname of a file, directory or other parameter too long"
        )
        return _error_code(call.environ)
    except mirage_request.NotAsked as why:
        say(call, "%s; submitted without a chain" % (why,))
        return become_sbatch(call)
    except Exception as error:
        if call.code is not None:  # never twice
            say(call, "%s: %s" % (type(error).__name__, error))
            return call.code
        say(call, "%s: %s; submitted without a chain" % (type(error).__name__, error))
        return become_sbatch(call)


def _undo_python():
    """Take back what Python does to a process before it runs a line: sbatch inherits it."""
    import _signal  # the built-in one: loading `signal` costs 2 ms

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    if os.environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):  # PEP 538: for none and for C
        _restore(b"LC_CTYPE")


def signals_for_a_program():
    """The rest of it, last of all: until then a file over `ulimit -f` is an error and no death."""
    import _signal

    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)


def _restore(name):
    """Set a variable back to what this process was started with."""
    try:
        with open("/proc/self/environ", "rb") as given:
            found = [e for e in given.read().split(b"\0") if e.startswith(name + b"=")]
    except OSError:
        return
    if found:
        os.environb[name] = found[0][len(name) + 1 :]
    else:
        del os.environb[name]


def _error_code(environ):
    """sbatch's own code for an error of its own."""
    code = environ.get("SLURM_EXIT_ERROR", "")
    return int(code) & 255 or 1 if code.isdigit() else 1


def find_real(own, environ):
    """The sbatch behind this one: named, or the next on PATH, or the usual place."""
    own = os.path.realpath(own)
    named = environ.get("MIRAGE_REAL_SBATCH")
    if named and os.path.realpath(named) != own:
        return named
    candidates = [os.path.join(p, "sbatch") for p in environ.get("PATH", "").split(":") if p]
    mine = [i for i, path in enumerate(candidates) if os.path.realpath(path) == own]
    # Only those behind our own place: two wrappers on one PATH must not call each other for ever.
    for path in candidates[mine[-1] + 1 if mine else 0 :] + ["/usr/bin/sbatch"]:
        if os.access(path, os.X_OK) and os.path.isfile(path) and os.path.realpath(path) != own:
            return path
    return None


def _decide(call):
    reading, environ = call.reading, call.environ
    if environ.get("MIRAGE_DISABLE", "0") not in ("", "0"):
        return become_sbatch(call)
    if not reading.sure:
        reading = call.reading = call.read(reading.words)
    if HELP in reading.own_words():
        return _help()
    submits = not ASKS_NOTHING.intersection(o.name for o in reading.options)
    head = _head(call) if submits else b""
    if submits and environ.get("MIRAGE_LINK"):
        import mirage_inside

        link = mirage_inside.find(environ)
        if link is not None and not reading.has("test-only"):
            return mirage_inside.submit(call, link, head)
    if submits and environ.get("SLURM_MIRAGE_PLAIN") and not reading.has("test-only"):
        import mirage_inside

        return mirage_inside.submit_below(call, head)
    if mirage_request.CARRIER_MARK in head:
        return become_sbatch(call)
    _say_what_the_script_gets(call, head)
    if not mirage_request.wants(reading, environ, head):
        return become_sbatch(call)
    settings = settings_of(call, head)
    # Behind a word that is not understood no option is found: a chain's may stand there.
    lost = reading.not_understood is not None and _names_mirage(reading)
    if (settings is None and not lost) or not _understood(call):
        return become_sbatch(call)
    if reading.script is None and reading.last("wrap") is None:  # it may come through a pipe
        head = mirage_request.leading_block(script_bytes(call))
        settings = settings_of(call, head)
        if mirage_request.CARRIER_MARK in head:
            return become_sbatch(call)
    mirage_request.check(reading, call.said, environ, head, settings.links)
    import mirage_chain

    return mirage_chain.submit(call, settings)


def _names_mirage(reading):
    return any(word.startswith("--" + mirage_options.MIRAGE) for word in reading.own_words())


def _say_what_the_script_gets(call, head):
    """An option behind the script is the script's own word: whoever meant it for us is told."""
    reading = call.reading
    # A directive of ours is SPANK's, by which such a call comes here twice.
    words = [] if reading.script is None or b"--mirage-" in head else reading.words[reading.script + 1 :]
    for word in words:
        if word.startswith("--" + mirage_options.MIRAGE):
            shown = mirage_request.shown(word)
            say(call, "%s stands behind the script: the script gets it, not sbatch" % (shown,))
            return


def _help():
    import mirage_help

    os.write(1, mirage_help.text().encode("ascii"))
    return 0


def settings_of(call, head):
    """What this call asks of a chain; None where it asks for none."""
    import mirage_settings

    call.said = mirage_request.directives(head, call.read)
    return mirage_settings.find(call.reading, call.said, call.environ, head, call.comment())


def _understood(call):
    """Whether this call can be carried; where not, the real sbatch has its own words for it."""
    reading = call.reading
    if reading.has("test-only") or ASKS_NOTHING.intersection(o.name for o in reading.options):
        return False
    if reading.not_understood is not None:
        shown = mirage_request.shown(reading.not_understood)
        say(call, "%s is not known here, so this is no chain" % (shown,))
        return False
    if reading.last("wrap") is not None:
        return reading.script is None
    if reading.script is None or call.path is not None:
        return True
    if os.path.exists(reading.words[reading.script]):
        say(call, "the script is not a plain file, so this is no chain")
    return False


def _head(call):
    """The script's leading comment lines, where they can be seen without disturbing sbatch."""
    reading = call.reading
    if reading.not_understood is not None or reading.last("wrap") is not None:
        return b""
    if reading.script is None:
        return mirage_request.leading_block(_peek_stdin())
    word = reading.words[reading.script]
    call.path = mirage_request.find_script(word, reading.last("chdir"), call.environ)
    if call.path is None:
        return b""
    with open(call.path, "rb") as script:
        head = mirage_request.leading_block(script.read(HEAD_BYTES))
        return head if len(head) < HEAD_BYTES else mirage_request.leading_block(_all(script, head))


def _all(script, start):
    return start + script.read(LARGEST)


def _peek_stdin():
    """The head of a script on standard input, seen in place and left there.

    What is read from a pipe could not be put back without waiting for its writer, and sbatch
    refuses bad options before it reads.
    """
    import stat

    try:
        found = os.fstat(0)
    except OSError:  # closed
        return b""
    if stat.S_ISREG(found.st_mode):
        return os.pread(0, min(found.st_size, LARGEST), os.lseek(0, 0, os.SEEK_CUR))
    if stat.S_ISFIFO(found.st_mode):
        import mirage_pipe

        return mirage_pipe.head(0)
    return b""


def _read_all(fd):
    parts = []
    left = LARGEST
    while left >= 0:
        part = os.read(fd, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        left -= len(part)
    raise TooLarge


def script_bytes(call):
    """The whole script that sbatch would submit."""
    wrapped = call.reading.last("wrap")
    if wrapped is not None:
        text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n%s\n" % (wrapped,)
        return os.fsencode(text)
    if call.path is not None:
        with open(call.path, "rb") as script:
            text = script.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise TooLarge
        return text
    if call.piped is None:
        call.piped = _read_all(0)
    return call.piped


def become_sbatch(call):
    if call.piped is not None:
        _give_on(call.piped)
    words = call.reading.plain()
    signals_for_a_program()
    try:
        os.execv(call.real, ["sbatch"] + words)  # noqa: S606 - an argument vector
    except OSError as error:
        complain("mirage: %s: %s" % (call.real, error.strerror))
        return 127


def _give_on(script):
    """Make `script` standard input again."""
    try:
        end = _pipe_with(script)
    except OSError:  # no process to be had
        import tempfile

        with tempfile.TemporaryFile() as unnamed:
            unnamed.write(script)
            unnamed.seek(0)
            os.dup2(unnamed.fileno(), 0)
        return
    os.dup2(end, 0)
    os.close(end)


def _pipe_with(script):
    """The end to read from. What fits into a pipe needs no writer beside it."""
    end, start = os.pipe()
    if len(script) <= 65536:
        os.write(start, script)
    elif os.fork() == 0:
        os.close(end)
        try:
            while script:
                script = script[os.write(start, script) :]
        finally:
            os._exit(0)
    os.close(start)
    return end


def say(call, words):
    """One line for the user, unless only the job id is wanted."""
    if not call.quiet():
        complain("mirage: %s" % (words,))


def complain(line):
    """Write a line to standard error, if there is one; what it quotes cannot steer a terminal."""
    import _signal

    line = "".join(c if c.isprintable() else "?" for c in line)
    before = _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)  # a reader that left is no reason to die
    try:
        os.write(2, line.encode("utf-8") + b"\n")
    except OSError:
        pass  # closed: nobody wants to know
    _signal.signal(_signal.SIGPIPE, before)
