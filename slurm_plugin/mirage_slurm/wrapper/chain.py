"""A chain in the making: its id, its script, and the options that each of its links is submitted with."""

import os
import time

from mirage_slurm.client import credentials
from mirage_slurm.wrapper import invocation
from mirage_slurm.wrapper.settings import parse_comment

ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without i, l, o, u; in ASCII order
FIRST_LINK_ONLY = frozenset(["begin", "comment", "dependency", "hold", "parsable", "quiet"])


class Script(object):
    """A user's script: the name that sbatch gives the job by it, and its bytes."""

    __slots__ = ("name", "text")

    def __init__(self, name, text):
        self.name = name
        self.text = text


class Chain(object):
    """A chain in the making: where its files are, and the options that each link is submitted with."""

    __slots__ = ("call", "comment", "directives", "directory", "id", "script", "settings")

    def __init__(self, call, settings):
        self.call = call
        self.directives = call.directives
        self.settings = settings
        self.id = make_id()
        self.script = Script(get_job_name(call), _read_sound_script(call))
        self.directory = None
        self.comment = parse_comment(call.get_comment())[0]
        service_note = _format_service_note(settings)
        self.comment = (
            (self.comment + " " + service_note).strip(" ") if service_note else self.comment
        )

    def format_tag(self, link):
        return "mirage:%s:%d" % (self.id, link)

    def find_clusters(self):
        return invocation.find_clusters(self.call.reading, self.directives, self.call.environ)

    def format_comment(self, link):
        return (self.comment + " " + self.format_tag(link)).lstrip(" ")

    def get_carrier_path(self):
        return os.path.join(self.directory, "carrier", self.script.name)

    def split_words(self, without):
        """Return the user's options: those of the job's first component, and those after them."""
        reading = self.call.reading
        end = len(reading.words) if reading.script is None else reading.script
        drop, insert = without | {"wrap"}, reading.insert
        return reading.list_words_without(drop, 0, insert), reading.list_words_without(
            drop, insert, end
        )

    def get_arguments(self):
        reading = self.call.reading
        return [] if reading.script is None else reading.words[reading.script + 1 :]

    def choose_open_mode(self):
        """Return an option that makes each link append to the job's output; "" if the user chose."""
        is_chosen = self.call.reading.has_option("open-mode") or self.directives.has_option(
            "open-mode"
        )
        return "" if is_chosen or "SBATCH_OPEN_MODE" in self.call.environ else "--open-mode=append"


def _format_service_note(settings):
    """Format settings for the jobs' comment. A service that knows the chain only by its jobs in the
    queue reads them there."""
    items = ["service=none"] if settings.service == "none" else []
    items += ["lead=%d" % (settings.lead_s // 60,)] if settings.lead_s else []
    return "mirage:" + ",".join(items) if items else ""


class Unsound(Exception):
    """sbatch will refuse this script, so sbatch is run to say why."""


def make_id():
    """Return a chain's id: 100 bits that sort by time. 35 are seconds, 45 are random, and 20 tie the
    id to its user: nobody who reads the id in the queue can register it as their own
    (is_made_for in mirage/domain/chain.py)."""
    bits = (int(time.time()) & (2**35 - 1)) << 45
    bits |= int.from_bytes(os.urandom(6), "big") & (2**45 - 1)
    stem = _encode_letters(bits, 75)
    text = "%s:%d" % (stem, os.getuid())
    return stem + _encode_letters(int(credentials.hash_sha256(text.encode("ascii"))[:5], 16), 15)


def _encode_letters(bits, shift):
    return "".join(ID_LETTERS[bits >> low & 31] for low in range(shift, -1, -5))


def get_job_name(call):
    """Return the name that sbatch would give the job. The carrier's file has the same name."""
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
    """Return the words by which the kernel runs a script: a path, and the rest of the line as one."""
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
    """Return the user's options for a later link: those before and those after the link's own."""
    before, after = chain.split_words(FIRST_LINK_ONLY)
    resets = (("begin", "--begin=now"), ("dependency", "--dependency=0"))
    return before + [word for name, word in resets if chain.directives.has_option(name)], after
