"""Does this call ask for a chain, and may it be one?

What exactly it asks for is read by mirage_settings, which a plain call does not load.
"""

import os

import mirage_options

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
    said = mirage_options.Reading([])
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


def check(reading, said, environ, head, links):
    """Refuse what cannot be a link. `said` are the script's directives, `head` its first lines."""

    def has(name):
        return reading.has(name) or said.has(name)

    if links > 1 and has_shared_log(reading, said, environ):
        raise Refused(
            "--open-mode=truncate with one output file for all links: a link that starts early"
            " would empty the log of the one before it. Put %j into its name, or append"
        )
    pbs = _pbs(reading, environ, head)
    if has("array") or environ.get("SBATCH_ARRAY_INX") or pbs & {b"-J", b"-t"}:
        raise Refused("a job array cannot be a chain")
    if said.has("hold") or b"-h" in pbs:
        raise Refused("the script's own --hold would hold every link: give it to sbatch instead")
    if has("wait") or environ.get("SBATCH_WAIT") is not None:
        raise Refused("a job submitted with --wait cannot be a chain")
    if has("uid") or has("gid"):
        raise Refused("a job submitted for somebody else (--uid, --gid) cannot be a chain")
    if has("cluster-constraint") or environ.get("SBATCH_CLUSTER_CONSTRAINT"):
        raise Refused("a job of a federation (--cluster-constraint) cannot be a chain")
    if (reading.last("export-file") or "").isdigit():
        raise Refused("--export-file=N is open for this call alone; a chain needs a file's name")
    clusters = clusters_of(reading, said, environ)
    if "," in clusters or clusters == "all":
        raise Refused("a chain stays on one cluster; name one with -M, not %s" % shown(clusters))


def has_shared_log(reading, said, environ):
    """Whether each link would empty a file that the link before it may still write."""
    mode = _value("open-mode", "", "SBATCH_OPEN_MODE", reading, said, environ) or ""
    if mode[:1] not in ("t", "T"):  # as sbatch reads it
        return False
    names = [
        _value("output", "o", "SBATCH_OUTPUT", reading, said, environ),
        _value("error", "e", "SBATCH_ERROR", reading, said, environ),
    ]
    return any(name and name != os.devnull and not _names_the_job(name) for name in names)


def _value(name, letter, variable, reading, said, environ):
    """An option as sbatch ranks it: the command line, the environment, the directives."""
    found = None
    for options, between in ((said.options, variable), (reading.options, None)):
        for option in options:
            if option.name in (name, letter):
                found = option.value
        if between and environ.get(between):
            found = environ[between]
    return found


def _names_the_job(pattern):
    """Whether a file's name has the job's number in it. A backslash in it makes all of it plain."""
    import re  # which takes a while, and few calls come here

    return "\\" not in pattern and re.search("%[0-9]*[AjJ]", pattern.replace("%%", "")) is not None


def clusters_of(reading, said, environ):
    """Where sbatch sends the job, by name; "": to the cluster of this host."""
    return (
        reading.last("clusters")
        or environ.get("SBATCH_CLUSTERS")
        or environ.get("SLURM_CLUSTERS")
        or said.last("clusters")
        or ""
    )


def _pbs(reading, environ, head):
    """The short options in #PBS lines, which sbatch reads too: of these -J and -t make an array."""
    if b"#PBS" not in head or reading.has("ignore-pbs") or "SBATCH_IGNORE_PBS" in environ:
        return frozenset()
    lines = [line.split() for line in head.split(b"\n") if line.startswith(b"#PBS")]
    return frozenset(word[:2] for words in lines for word in words)


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
