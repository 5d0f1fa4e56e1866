"""Does this call ask for a chain, and may it be one?

An option wins over the environment, and that over `#MIRAGE` lines in the script.
"""

import os

import mirage_options

MAX_LINKS = 1000
CARRIER_MARK = b"# mirage carrier "
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@/+-")


class Refused(Exception):
    """The request cannot be a chain; the message is the sentence that the user reads."""


class Request(object):
    """A chain as asked for."""

    __slots__ = ("links", "overlap_price", "policy")

    def __init__(self, links, policy, overlap_price):
        self.links = links
        self.policy = policy
        self.overlap_price = overlap_price


def find(reading, environ, head):
    """The chain request of this call, or None. `head` is the script's leading comment block."""
    asked = {}
    asked.update(_from_script(head))
    if environ.get("MIRAGE_CHAIN"):
        asked["chain"] = environ["MIRAGE_CHAIN"]
    asked.update(_from_words(reading))
    if not asked:
        return None
    if "chain" not in asked:
        raise Refused("--mirage-%s means nothing without --mirage-chain=N" % (sorted(asked)[0],))
    return Request(_links(asked["chain"]), _name(asked.get("policy")), _price(asked))


def wants(reading, environ, head):
    """Whether anything at all asks for a chain, however badly."""
    if environ.get("MIRAGE_CHAIN") or b"#MIRAGE" in head:
        return True
    return any(word.startswith("--mirage-") for word in reading.words[: _own_words(reading)])


def _own_words(reading):
    return len(reading.words) if reading.script is None else reading.script


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


def _from_words(reading):
    asked = {}
    for word in reading.words[: _own_words(reading)]:
        name = word[2:].split("=")[0]
        if word.startswith("--mirage-") and name not in mirage_options.MIRAGE_NAMES:
            raise Refused("no option %s" % (_shown(word.split("=")[0]),))
    for option in reading.options:
        if option.name in mirage_options.MIRAGE_NAMES:
            asked[option.name[len(mirage_options.MIRAGE) :]] = option.value
    if not asked and reading.not_understood in ("--mirage-chain", "--mirage-policy"):
        raise Refused("%s needs a value" % (reading.not_understood,))
    return asked


def _from_script(head):
    asked = {}
    if b"#MIRAGE" not in head or CARRIER_MARK in head:
        return asked
    for line in head.split(b"\n"):
        words = line.decode("utf-8", "replace").split()
        if not words or words[0] != "#MIRAGE":
            continue
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if "mirage-" + name[2:] not in mirage_options.MIRAGE_NAMES or not equals:
                raise Refused("no such thing in a #MIRAGE line: %s" % (_shown(word),))
            asked[name[2:]] = value
    return asked


def _links(text):
    digits = text and len(text) < 9 and frozenset("0123456789").issuperset(text)
    if not (digits and 1 <= int(text) <= MAX_LINKS):
        raise Refused("a chain has 1 to %d links, not %s" % (MAX_LINKS, _shown(text)))
    return int(text)


def _name(text):
    if text is not None and not (text and len(text) <= 80 and NAME_CHARACTERS.issuperset(text)):
        raise Refused("no policy can be called %s" % (_shown(text),))
    return text


def _price(asked):
    text = asked.get("overlap-price")
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0.0 <= price <= 1e6:  # also refuses nan
        raise Refused("--mirage-overlap-price is a number from 0 up, not %s" % (_shown(text),))
    return price


def _shown(text):
    """A user's word that is safe to print."""
    return "'%s'" % ("".join(c if " " <= c <= "~" else "?" for c in text[:60]),)


def directives(head):
    """What the script's own #SBATCH lines say, read as options."""
    words = []
    for line in head.split(b"\n"):
        if line.startswith(b"#SBATCH") and line[7:8] in (b" ", b"\t"):
            words.extend(_split(line[7:].decode("utf-8", "surrogateescape")))
    return mirage_options.read(words)


def _split(text):
    """Split a directive as sbatch does: blanks, quotes, backslash, and `#` begins a comment."""
    words = []
    word = quote = None
    i = 0
    while i < len(text):
        c = text[i]
        if c == "\\" and quote != "'" and i + 1 < len(text):
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


def check(reading, said, environ):
    """Refuse what cannot be a link. `said` are the script's directives."""
    both = (reading, said)
    if any(r.has("array") for r in both) or environ.get("SBATCH_ARRAY_INX"):
        raise Refused("a job array cannot be a chain")
    if any(r.has("wait") for r in both) or environ.get("SBATCH_WAIT") is not None:
        raise Refused("a job submitted with --wait cannot be a chain")
    if reading.has("uid") or reading.has("gid"):
        raise Refused("a job submitted for somebody else (--uid, --gid) cannot be a chain")
    clusters = (
        reading.last("clusters")
        or environ.get("SBATCH_CLUSTERS")
        or environ.get("SLURM_CLUSTERS")
        or said.last("clusters")
        or ""
    )
    if "," in clusters or clusters == "all":
        raise Refused("a chain stays on one cluster; name one with -M, not %s" % _shown(clusters))


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
