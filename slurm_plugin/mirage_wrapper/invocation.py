"""One call of sbatch: its words, its script as far as it is found, whether it asks for a chain.

And the real sbatch behind it. What exactly is asked for is read in settings.py, which a plain call
does not load.
"""

import os

from mirage_wrapper.options import Reading, read_words

HEAD_BYTES = 65536
CARRIER_MARK = b"# mirage carrier "
END_OF_CORE = b"# --- the script as submitted ---\n"  # in a carrier; behind it the script stands
LARGEST = 64 << 20  # of a script; slurmctld takes 4 MiB unless the site set max_script_size
HET = ("hetjob", "packjob")  # a directive of one word: the next component begins


class Refused(Exception):
    """The request cannot be a chain; the message is the sentence that the user reads."""


class TooLarge(Exception):
    """A script that no slurmctld takes, or that has no end."""


class NotAsked(Exception):
    """Words for Mirage that ask for no chain; the message is the sentence that the user reads."""


class Call(object):
    """One call of sbatch: its words, and its script as far as it was found."""

    __slots__ = ("code", "environ", "known", "path", "piped", "reading", "real", "said")

    def __init__(self, real, words, environ):
        self.real = real
        self.code = None  # the real sbatch's exit code, once it has submitted a chain's first link
        self.known = None  # the options of the real sbatch, once it was asked
        self.reading = read_words(words)
        self.said = Reading([])  # the script's own directives, once they are read
        self.environ = environ
        self.path = None
        self.piped = None  # what was read from a pipe, to be given on

    def read_words(self, words):
        """Read sbatch's words. Where our table leaves a doubt, by the options of the real sbatch."""
        reading = read_words(words)
        if reading.sure:
            return reading
        if self.known is None:
            from mirage_wrapper import discovery

            self.known = discovery.find_options(self.real, self.environ)
        return read_words(words, self.known)

    def is_quiet(self):
        both = (self.reading, self.said)
        return any(r.has_option("quiet") or r.has_option("parsable") for r in both)

    def get_comment(self):
        """The comment that the job would have: an option goes before a directive."""
        given = self.reading.get_value("comment")
        return (self.said.get_value("comment") or "") if given is None else given


def find_real_sbatch(own, environ):
    """The sbatch behind the one at the real path `own`: named, or the next on PATH, or the usual."""
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


def read_head(call):
    """The script's leading comment lines, where they can be seen without disturbing sbatch."""
    reading = call.reading
    if reading.not_understood is not None or reading.get_value("wrap") is not None:
        return b""
    if reading.script is None:
        from mirage_wrapper import stdin

        return cut_leading_block(stdin.peek_script(cut_leading_block, LARGEST))
    word = reading.words[reading.script]
    call.path = find_script(word, reading.get_value("chdir"), call.environ)
    if call.path is None:
        return b""
    with open(call.path, "rb") as script:
        head = cut_leading_block(script.read(HEAD_BYTES))
        return head if len(head) < HEAD_BYTES else cut_leading_block(_read_rest(script, head))


def _read_rest(script, start):
    return start + script.read(LARGEST)


def read_script(call):
    """The whole script that sbatch would submit."""
    wrapped = call.reading.get_value("wrap")
    if wrapped is not None:
        text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n%s\n" % (wrapped,)
        return os.fsencode(text)
    if call.path is not None:
        with open(call.path, "rb") as script:
            return _refuse_large(script.read(LARGEST + 1))
    if call.piped is None:
        from mirage_wrapper import stdin

        call.piped = _refuse_large(stdin.read_all(LARGEST))
    return call.piped


def _refuse_large(text):
    if len(text) > LARGEST:
        raise TooLarge
    return text


def exec_sbatch(call):
    if call.piped is not None:
        from mirage_wrapper import stdin

        stdin.restore_script(call.piped)
    words = call.reading.list_plain_words()
    restore_signals()
    try:
        os.execv(call.real, ["sbatch"] + words)  # noqa: S606 - an argument vector
    except OSError as error:
        print_error("mirage: %s: %s" % (call.real, error.strerror))
        return 127


def restore_signals():
    """The rest of it, last of all: until then a file over `ulimit -f` is an error and no death."""
    import _signal

    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)


def report(call, words):
    """One line for the user, unless only the job id is wanted."""
    if not call.is_quiet():
        print_error("mirage: %s" % (words,))


def print_error(line):
    """Write a line to standard error, if there is one; what it quotes cannot steer a terminal."""
    import _signal

    line = "".join(c if c.isprintable() else "?" for c in line)
    before = _signal.signal(
        _signal.SIGPIPE, _signal.SIG_IGN
    )  # a reader that left is no reason to die
    try:
        os.write(2, line.encode("utf-8") + b"\n")
    except OSError:
        pass  # closed: nobody wants to know
    _signal.signal(_signal.SIGPIPE, before)


def has_request(reading, environ, head):
    """Return whether anything at all may ask for a chain, however badly."""
    if environ.get("MIRAGE_CHAIN") or environ.get("MIRAGE_TOTAL"):
        return True
    if b"#MIRAGE" in head or b"mirage:" in head:
        return True
    return any(w.startswith("--mirage-") or "mirage:" in w for w in reading.list_own_words())


def cut_leading_block(text):
    """The lines up to the first command: those in which sbatch looks for directives."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end + 1
        line = text[at:end].strip(b" \t\n\v\f\r")
        if line and not line.startswith(b"#"):
            break
        at = end
    return text[:at]


def read_directives(head, read):
    """Read the script's own #SBATCH lines as options, by `read`.

    A line that is not understood is passed over: sbatch itself will speak of it.
    """
    said = Reading([])
    for line in head.split(b"\n"):
        words = split_directive(line)
        if words and words[0] in HET:
            said.components += 1
        elif words:
            for option in read(words).options:
                option.component = said.components - 1
                said.options.append(option)
    return said


def split_directive(line):
    """The words of a directive line; #SLURM is sbatch's other name for #SBATCH."""
    for mark in (b"#SBATCH", b"#SLURM"):
        if line.startswith(mark):
            return _split_words(line[len(mark) :].decode("utf-8", "surrogateescape"))
    return []


def _split_words(text):
    """Split a directive as sbatch does: blanks, quotes, backslash, and `#` begins a comment."""
    words = []
    word = quote = None
    i = 0
    while i < len(text):
        c = text[i]
        if c == "\\" and i + 1 < len(text):  # in quotes of either kind too
            i += 1
            word = (word or "") + text[i]
        elif quote:
            quote, word = (None, word) if c == quote else (quote, word + c)
        elif c in "\"'":
            quote, word = c, word or ""
        elif c.isspace() or c == "#":
            if word is not None:
                words.append(word)
            word = None
            if c == "#":
                return words
        else:
            word = (word or "") + c
        i += 1
    return words if word is None else [*words, word]


def find_clusters(reading, said, environ):
    """Return the name of the cluster that sbatch sends the job to; "": the cluster of this host."""
    return (
        reading.get_value("clusters")
        or environ.get("SBATCH_CLUSTERS")
        or environ.get("SLURM_CLUSTERS")
        or said.get_value("clusters")
        or ""
    )


def format_word(text):
    """A user's word that is safe to print."""
    return "'%s'" % ("".join(c if " " <= c <= "~" else "?" for c in text[:60]),)


def find_script(word, directory, environ):
    """Find a script as sbatch does: in --chdir's directory, on PATH, here; None if nowhere."""
    places = [directory or "."]
    if "/" not in word:
        places += [p for p in environ.get("PATH", "").split(":") if p]
    for place in places + ["."]:
        path = os.path.join(place, word)
        if os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return None
