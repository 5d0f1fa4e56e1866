"""A chain in the making: its id, its script, and what each of its links is submitted with."""

import os
import time

import mirage_client
from mirage_wrapper import invocation
from mirage_wrapper.settings import from_comment

ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without i, l, o, u; in ASCII order
FIRST_LINK_ONLY = frozenset(["begin", "comment", "dependency", "hold", "parsable", "quiet"])


class Script(object):
    """A user's script: the name that sbatch gives the job by it, and its bytes."""

    __slots__ = ("name", "text")

    def __init__(self, name, text):
        self.name = name
        self.text = text


class Chain(object):
    """A chain in the making: where its files are, and what each of its links is submitted with."""

    __slots__ = ("call", "comment", "directory", "id", "said", "script", "settings")

    def __init__(self, call, settings):
        self.call = call
        self.said = call.said
        self.settings = settings
        self.id = new_id()
        self.script = Script(name_of(call), _sound(call))
        self.directory = None
        self.comment = from_comment(call.comment())[0]
        told = _for_others(settings)
        self.comment = (self.comment + " " + told).strip(" ") if told else self.comment

    def tag(self, link):
        return "mirage:%s:%d" % (self.id, link)

    def clusters(self):
        return invocation.clusters_of(self.call.reading, self.said, self.call.environ)

    def comment_for(self, link):
        return (self.comment + " " + self.tag(link)).lstrip(" ")

    def carrier(self):
        return os.path.join(self.directory, "carrier", self.script.name)

    def own_words(self, without):
        """The user's options: those of the first component, and what comes after them."""
        reading = self.call.reading
        until = len(reading.words) if reading.script is None else reading.script
        drop, insert = without | {"wrap"}, reading.insert
        return reading.without(drop, 0, insert), reading.without(drop, insert, until)

    def arguments(self):
        reading = self.call.reading
        return [] if reading.script is None else reading.words[reading.script + 1 :]

    def open_mode(self):
        """Each link adds to the output of the last one, unless the user chose."""
        chose = self.call.reading.has("open-mode") or self.said.has("open-mode")
        return "" if chose or "SBATCH_OPEN_MODE" in self.call.environ else "--open-mode=append"


def _for_others(settings):
    """What the jobs tell a service that finds them and was never told of the chain."""
    told = ["service=none"] if settings.service == "none" else []
    told += ["lead=%d" % (settings.lead_s // 60,)] if settings.lead_s else []
    return "mirage:" + ",".join(told) if told else ""


class Unsound(Exception):
    """sbatch will refuse this script, in its own words."""


def new_id():
    """100 bits that sort by time: 35 of seconds, 45 of chance, and 20 that tie the id to its user:
    whoever reads it in the queue cannot register it as theirs (mirage/domain/chain.py, made_for)."""
    bits = (int(time.time()) & (2**35 - 1)) << 45
    bits |= int.from_bytes(os.urandom(6), "big") & (2**45 - 1)
    made = _letters(bits, 75)
    words = "%s:%d" % (made, os.getuid())
    return made + _letters(int(mirage_client.sha256(words.encode("ascii"))[:5], 16), 15)


def _letters(bits, shift):
    return "".join(ID_LETTERS[bits >> low & 31] for low in range(shift, -1, -5))


def name_of(call):
    """The name that sbatch would give the job, which is that of the carrier's file."""
    if call.reading.last("wrap") is not None:
        return "wrap"
    if call.reading.script is None:
        return "sbatch"
    return os.path.basename(call.reading.words[call.reading.script])


def _sound(call):
    script = invocation.script_bytes(call)
    if not script.startswith(b"#!") or b"\0" in script or b"\r\n" in script:
        raise Unsound
    if not interpreter(script):
        raise ValueError("the script's first line names no interpreter")
    return script


def interpreter(text):
    """The words that the kernel runs a script with: a path and, as one word, the rest."""
    line = text.split(b"\n", 1)[0][2:].strip(b" \t")
    path, _, rest = line.replace(b"\t", b" ").partition(b" ")
    if not path:
        return []
    rest = line[len(path) :].strip(b" \t")
    return [path, rest] if rest else [path]


def first_words(chain):
    before, after = chain.own_words(frozenset())
    return (
        before
        + ["--comment=" + chain.comment_for(1)]
        + after
        + [chain.carrier(), chain.tag(1)]
        + chain.arguments()
    )


def later_words(chain):
    """The user's options for a later link: those before and those after what each link adds."""
    before, after = chain.own_words(FIRST_LINK_ONLY)
    undone = (("begin", "--begin=now"), ("dependency", "--dependency=0"))
    return before + [word for name, word in undone if chain.said.has(name)], after
