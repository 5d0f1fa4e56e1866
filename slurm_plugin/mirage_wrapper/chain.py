"""A chain in the making: its id, its script, and what each of its links is submitted with."""

import os
import time

import mirage_client
from mirage_wrapper import invocation
from mirage_wrapper.settings import parse_comment

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
        self.id = make_id()
        self.script = Script(get_job_name(call), _read_sound_script(call))
        self.directory = None
        self.comment = parse_comment(call.get_comment())[0]
        told = _format_told(settings)
        self.comment = (self.comment + " " + told).strip(" ") if told else self.comment

    def format_tag(self, link):
        return "mirage:%s:%d" % (self.id, link)

    def find_clusters(self):
        return invocation.find_clusters(self.call.reading, self.said, self.call.environ)

    def format_comment(self, link):
        return (self.comment + " " + self.format_tag(link)).lstrip(" ")

    def get_carrier_path(self):
        return os.path.join(self.directory, "carrier", self.script.name)

    def split_words(self, without):
        """The user's options: those of the first component, and what comes after them."""
        reading = self.call.reading
        until = len(reading.words) if reading.script is None else reading.script
        drop, insert = without | {"wrap"}, reading.insert
        return reading.list_words_without(drop, 0, insert), reading.list_words_without(
            drop, insert, until
        )

    def get_arguments(self):
        reading = self.call.reading
        return [] if reading.script is None else reading.words[reading.script + 1 :]

    def choose_open_mode(self):
        """Each link adds to the output of the last one, unless the user chose."""
        chose = self.call.reading.has_option("open-mode") or self.said.has_option("open-mode")
        return "" if chose or "SBATCH_OPEN_MODE" in self.call.environ else "--open-mode=append"


def _format_told(settings):
    """Format what the jobs tell a service that finds them and was never told of the chain."""
    told = ["service=none"] if settings.service == "none" else []
    told += ["lead=%d" % (settings.lead_s // 60,)] if settings.lead_s else []
    return "mirage:" + ",".join(told) if told else ""


class Unsound(Exception):
    """sbatch will refuse this script, in its own words."""


def make_id():
    """100 bits that sort by time: 35 of seconds, 45 of chance, and 20 that tie the id to its user:
    whoever reads it in the queue cannot register it as theirs (mirage/domain/chain.py, made_for)."""
    bits = (int(time.time()) & (2**35 - 1)) << 45
    bits |= int.from_bytes(os.urandom(6), "big") & (2**45 - 1)
    made = _encode_letters(bits, 75)
    words = "%s:%d" % (made, os.getuid())
    return made + _encode_letters(int(mirage_client.hash_sha256(words.encode("ascii"))[:5], 16), 15)


def _encode_letters(bits, shift):
    return "".join(ID_LETTERS[bits >> low & 31] for low in range(shift, -1, -5))


def get_job_name(call):
    """The name that sbatch would give the job, which is that of the carrier's file."""
    if call.reading.get_value("wrap") is not None:
        return "wrap"
    if call.reading.script is None:
        return "sbatch"
    return os.path.basename(call.reading.words[call.reading.script])


def _read_sound_script(call):
    script = invocation.read_script(call)
    if not script.startswith(b"#!") or b"\0" in script or b"\r\n" in script:
        raise Unsound
    if not parse_interpreter(script):
        raise ValueError("the script's first line names no interpreter")
    return script


def parse_interpreter(text):
    """The words that the kernel runs a script with: a path and, as one word, the rest."""
    line = text.split(b"\n", 1)[0][2:].strip(b" \t")
    path, _, rest = line.replace(b"\t", b" ").partition(b" ")
    if not path:
        return []
    rest = line[len(path) :].strip(b" \t")
    return [path, rest] if rest else [path]


def build_first_words(chain):
    before, after = chain.split_words(frozenset())
    return (
        before
        + ["--comment=" + chain.format_comment(1)]
        + after
        + [chain.get_carrier_path(), chain.format_tag(1)]
        + chain.get_arguments()
    )


def build_later_words(chain):
    """The user's options for a later link: those before and those after what each link adds."""
    before, after = chain.split_words(FIRST_LINK_ONLY)
    undone = (("begin", "--begin=now"), ("dependency", "--dependency=0"))
    return before + [word for name, word in undone if chain.said.has_option(name)], after
