"""One call of sbatch: its words, its script if that is found, and whether it may ask for a chain.

This also finds and runs the real sbatch. settings.py reads the settings of a chain; a plain call
does not load it.
"""

import os

from mirage_slurm.wrapper.options import Reading, read_words

HEAD_BYTES = 65536
CARRIER_MARK = b"# mirage carrier "
END_OF_CORE = b"# --- the script as submitted ---\n"  # in a carrier the script follows this line
LARGEST = 64 << 20  # of a script; slurmctld takes 4 MiB unless the site set max_script_size
HET = ("hetjob", "packjob")  # a directive of one word: the next component begins


class Refused(Exception):
    """The request cannot be a chain; the message is for the user."""


class TooLarge(Exception):
    """The script is larger than any slurmctld accepts, or it has no end."""


class NotAsked(Exception):
    """The call has settings for Mirage but asks for no chain; the message is for the user."""


class Call(object):
    """One call of sbatch: its words, and its script if that was found."""

    __slots__ = (
        "code",
        "directives",
        "environ",
        "option_table",
        "path",
        "piped",
        "reading",
        "real",
    )

    def __init__(self, real, words, environ):
        self.real = real
        self.code = None  # the real sbatch's exit code, once it has submitted a chain's first link
        self.option_table = None  # the options of the real sbatch; None until sbatch is asked
        self.reading = read_words(words)
        self.directives = Reading([])  # the script's own directives; empty until they are read
        self.environ = environ
        self.path = None
        self.piped = None  # the script if it was read from a pipe: the real sbatch gets it

    def read_words(self, words):
        """Read sbatch's words; if our table leaves a doubt, by the options of the real sbatch."""
        reading = read_words(words)
        if reading.sure:
            return reading
        if self.option_table is None:
            from mirage_slurm.wrapper import discovery

            self.option_table = discovery.find_options(self.real, self.environ)
        return read_words(words, self.option_table)

    def is_quiet(self):
        both = (self.reading, self.directives)
        return any(r.has_option("quiet") or r.has_option("parsable") for r in both)

    def get_comment(self):
        """Return the comment that the job would have: an option overrides a directive."""
        comment = self.reading.get_value("comment")
        return (self.directives.get_value("comment") or "") if comment is None else comment


def find_real_sbatch(own, environ):
    """Return the real sbatch: that of MIRAGE_REAL_SBATCH, the next on PATH after our own (`own`, a
    real path), or /usr/bin/sbatch; None if there is none."""
    configured = environ.get("MIRAGE_REAL_SBATCH")
    if configured and os.path.realpath(configured) != own:
        return configured
    candidates = [os.path.join(p, "sbatch") for p in environ.get("PATH", "").split(":") if p]
    own_places = [i for i, path in enumerate(candidates) if os.path.realpath(path) == own]
    # Only places after our own: two wrappers on one PATH must not call each other for ever.
    for path in candidates[own_places[-1] + 1 if own_places else 0 :] + ["/usr/bin/sbatch"]:
        if os.access(path, os.X_OK) and os.path.isfile(path) and os.path.realpath(path) != own:
            return path
    return None


def read_head(call):
    """Return the script's leading comment lines; empty if reading them would disturb sbatch."""
    reading = call.reading
    if reading.not_understood is not None or reading.get_value("wrap") is not None:
        return b""
    if reading.script is None:
        from mirage_slurm.wrapper import stdin

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
    """Return the whole script that sbatch would submit, in bytes."""
    wrapped = call.reading.get_value("wrap")
    if wrapped is not None:
        text = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n%s\n" % (wrapped,)
        return os.fsencode(text)
    if call.path is not None:
        with open(call.path, "rb") as script:
            return _refuse_large(script.read(LARGEST + 1))
    if call.piped is None:
        from mirage_slurm.wrapper import stdin

        call.piped = _refuse_large(stdin.read_all(LARGEST))
    return call.piped


def _refuse_large(text):
    if len(text) > LARGEST:
        raise TooLarge
    return text


def exec_sbatch(call):
    if call.piped is not None:
        from mirage_slurm.wrapper import stdin

        stdin.restore_script(call.piped)
    words = call.reading.list_plain_words()
    restore_signals()
    try:
        os.execv(call.real, ["sbatch"] + words)  # noqa: S606 - an argument vector
    except OSError as error:
        print_error("mirage: %s: %s" % (call.real, error.strerror))
        return 127


def restore_signals():
    """Restore SIGXFSZ, right before exec: until then a file over `ulimit -f` is an error that Python
    reports, and does not kill the process."""
    import _signal

    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)


def report(call, message):
    """Print a line for the user, unless the user wants the job id only (--quiet, --parsable)."""
    if not call.is_quiet():
        print_error("mirage: %s" % (message,))


def print_error(line):
    """Write a line to standard error, if it is open. Control characters are replaced."""
    import _signal

    line = "".join(c if c.isprintable() else "?" for c in line)
    old_handler = _signal.signal(
        _signal.SIGPIPE, _signal.SIG_IGN
    )  # a reader that left is no reason to die
    try:
        os.write(2, line.encode("utf-8") + b"\n")
    except OSError:
        pass  # standard error is closed
    _signal.signal(_signal.SIGPIPE, old_handler)


def has_request(reading, environ, head):
    """Return whether anything may ask for a chain, correctly or not."""
    if environ.get("MIRAGE_CHAIN") or environ.get("MIRAGE_TOTAL"):
        return True
    if b"#MIRAGE" in head or b"mirage:" in head:
        return True
    return any(
        word.startswith("--mirage-") or "mirage:" in word for word in reading.list_own_words()
    )


def cut_leading_block(text):
    """Return the lines before the first command: sbatch looks for directives in these."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end + 1
        line = text[start:end].strip(b" \t\n\v\f\r")
        if line and not line.startswith(b"#"):
            break
        start = end
    return text[:start]


def read_directives(head, read):
    """Read the script's own #SBATCH lines as options, with the function `read`.

    A line that is not understood is skipped: sbatch itself will report it.
    """
    directives = Reading([])
    for line in head.split(b"\n"):
        words = split_directive(line)
        if words and words[0] in HET:
            directives.components += 1
        elif words:
            for option in read(words).options:
                option.component = directives.components - 1
                directives.options.append(option)
    return directives


def split_directive(line):
    """Return the words of a directive line; sbatch takes #SLURM for #SBATCH."""
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
        letter = text[i]
        if letter == "\\" and i + 1 < len(text):  # in quotes of either kind too
            i += 1
            word = (word or "") + text[i]
        elif quote:
            quote, word = (None, word) if letter == quote else (quote, word + letter)
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter.isspace() or letter == "#":
            if word is not None:
                words.append(word)
            word = None
            if letter == "#":
                return words
        else:
            word = (word or "") + letter
        i += 1
    return words if word is None else [*words, word]


def find_clusters(reading, directives, environ):
    """Return the name of the cluster that sbatch sends the job to; "": the cluster of this host."""
    return (
        reading.get_value("clusters")
        or environ.get("SBATCH_CLUSTERS")
        or environ.get("SLURM_CLUSTERS")
        or directives.get_value("clusters")
        or ""
    )


def format_word(text):
    """Return a user's word in quotes, safe to print and at most 60 characters long."""
    return "'%s'" % ("".join(letter if " " <= letter <= "~" else "?" for letter in text[:60]),)


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
