"""One call of sbatch: its words, its script as far as it is found, and the real sbatch behind it."""

import os

from mirage_wrapper import request
from mirage_wrapper.options import Reading, read

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
        self.reading = read(words)
        self.said = Reading([])  # the script's own directives, once they are read
        self.environ = environ
        self.path = None
        self.piped = None  # what was read from a pipe, to be given on

    def read(self, words):
        """Read sbatch's words. Where our table leaves a doubt, by the options of the real sbatch."""
        reading = read(words)
        if reading.sure:
            return reading
        if self.known is None:
            from mirage_wrapper import discovery

            self.known = discovery.known(self.real, self.environ)
        return read(words, self.known)

    def quiet(self):
        both = (self.reading, self.said)
        return any(r.has("quiet") or r.has("parsable") for r in both)

    def comment(self):
        """The comment that the job would have: an option goes before a directive."""
        given = self.reading.last("comment")
        return (self.said.last("comment") or "") if given is None else given


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


def settings_of(call, head):
    """What this call asks of a chain; None where it asks for none."""
    from mirage_wrapper import settings

    call.said = request.directives(head, call.read)
    return settings.find(call.reading, call.said, call.environ, head, call.comment())


def read_head(call):
    """The script's leading comment lines, where they can be seen without disturbing sbatch."""
    reading = call.reading
    if reading.not_understood is not None or reading.last("wrap") is not None:
        return b""
    if reading.script is None:
        return request.leading_block(_peek_stdin())
    word = reading.words[reading.script]
    call.path = request.find_script(word, reading.last("chdir"), call.environ)
    if call.path is None:
        return b""
    with open(call.path, "rb") as script:
        head = request.leading_block(script.read(HEAD_BYTES))
        return head if len(head) < HEAD_BYTES else request.leading_block(_all(script, head))


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
        from mirage_wrapper import pipe

        return pipe.head(0)
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


def signals_for_a_program():
    """The rest of it, last of all: until then a file over `ulimit -f` is an error and no death."""
    import _signal

    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)


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
