"""Does this call ask for a chain, and may it be one?

What exactly it asks for is read in settings.py, which a plain call does not load.
"""

import os

from mirage_wrapper.options import Reading


CARRIER_MARK = b"# mirage carrier "
HET = ("hetjob", "packjob")  # a directive of one word: the next component begins


class Refused(Exception):
    """The request cannot be a chain; the message is the sentence that the user reads."""


class NotAsked(Exception):
    """Words for Mirage that ask for no chain; the message is the sentence that the user reads."""


def wants(reading, environ, head):
    """Whether anything at all may ask for a chain, however badly."""
    if environ.get("MIRAGE_CHAIN") or environ.get("MIRAGE_TOTAL"):
        return True
    if b"#MIRAGE" in head or b"mirage:" in head:
        return True
    return any(w.startswith("--mirage-") or "mirage:" in w for w in reading.own_words())


def leading_block(text):
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


def directives(head, read):
    """What the script's own #SBATCH lines say, read as options by `read`.

    A line that is not understood is passed over: sbatch itself will speak of it.
    """
    said = Reading([])
    for line in head.split(b"\n"):
        words = directive_words(line)
        if words and words[0] in HET:
            said.components += 1
        elif words:
            for option in read(words).options:
                option.component = said.components - 1
                said.options.append(option)
    return said


def directive_words(line):
    """The words of a directive line; #SLURM is sbatch's other name for #SBATCH."""
    for mark in (b"#SBATCH", b"#SLURM"):
        if line.startswith(mark):
            return _split(line[len(mark) :].decode("utf-8", "surrogateescape"))
    return []


def _split(text):
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


def clusters_of(reading, said, environ):
    """Where sbatch sends the job, by name; "": to the cluster of this host."""
    return (
        reading.last("clusters")
        or environ.get("SBATCH_CLUSTERS")
        or environ.get("SLURM_CLUSTERS")
        or said.last("clusters")
        or ""
    )


def shown(text):
    """A user's word that is safe to print."""
    return "'%s'" % ("".join(c if " " <= c <= "~" else "?" for c in text[:60]),)


def find_script(word, directory, environ):
    """Where sbatch finds a script: in --chdir's directory, on PATH, here; None if nowhere."""
    places = [directory or "."]
    if "/" not in word:
        places += [p for p in environ.get("PATH", "").split(":") if p]
    for place in places + ["."]:
        path = os.path.join(place, word)
        if os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return None
