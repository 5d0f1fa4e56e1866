"""Submit the first link of a chain through the real sbatch, and tell Mirage of it."""

import os
import sys
import time

import mirage_carrier

ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without i, l, o, u; in ASCII order
FIRST_LINK_ONLY = frozenset(["begin", "comment", "dependency", "hold", "parsable", "quiet"])


class Chain(object):
    """A chain in the making: where its files are, and what each of its links is submitted with."""

    __slots__ = ("call", "comment", "directory", "id", "links", "said", "script")

    def __init__(self, call, request, said):
        self.call = call
        self.said = said
        self.id = new_id()
        self.links = request.links
        self.script = mirage_carrier.Script(name_of(call), _sound(call))
        self.directory = None
        self.comment = call.reading.last("comment") or said.last("comment") or ""

    def tag(self, link):
        return "mirage:%s:%d" % (self.id, link)

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


class Unsound(Exception):
    """sbatch will refuse this script, in its own words."""


def submit(call, request, said):
    """Submit the first link; the exit code is the real sbatch's."""
    try:
        chain = Chain(call, request, said)
    except Unsound:
        import mirage_sbatch

        return mirage_sbatch.become_sbatch(call)
    mirage_carrier.lay_out(chain)
    call.submitted = True
    code, said_by_sbatch = _run(call.real, first_words(chain), first_environment(call.environ))
    if code != 0:
        mirage_carrier.take_away(chain)
        return code
    _tell(chain, request, _job_id(said_by_sbatch))
    return code


def new_id():
    """80 bits that sort by time: 35 of seconds, 45 of chance."""
    bits = (int(time.time()) & (2**35 - 1)) << 45
    bits |= int.from_bytes(os.urandom(6), "big") & (2**45 - 1)
    return "".join(ID_LETTERS[bits >> shift & 31] for shift in range(75, -1, -5))


def name_of(call):
    """The name that sbatch would give the job, which is that of the carrier's file."""
    if call.reading.last("wrap") is not None:
        return "wrap"
    if call.reading.script is None:
        return "sbatch"
    return os.path.basename(call.reading.words[call.reading.script])


def _sound(call):
    import mirage_sbatch

    script = mirage_sbatch.script_bytes(call)
    if not script.startswith(b"#!") or b"\0" in script or b"\r\n" in script:
        raise Unsound
    if not mirage_carrier.interpreter(script):
        raise ValueError("the script's first line names no interpreter")
    return script


def first_words(chain):
    before, after = chain.own_words(frozenset())
    return (
        before
        + ["--comment=" + chain.comment_for(1)]
        + after
        + [chain.carrier(), chain.tag(1)]
        + chain.arguments()
    )


def first_environment(environ):
    """A chain is asked for once: sbatch inside a link starts no chain of its own."""
    return {name: value for name, value in environ.items() if name != "MIRAGE_CHAIN"}


def _run(real, words, environ):
    """Run the real sbatch, passing its standard output on as it comes and keeping a copy."""
    import signal

    out, theirs = os.pipe()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(theirs, 1)
            os.execve(real, ["sbatch", *words], environ)
        except OSError as error:
            os.write(2, ("mirage: %s: %s\n" % (real, error.strerror)).encode())
        finally:
            os._exit(127)
    os.close(theirs)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child decides what ^C means
    said = _pass_on(out)
    status = os.waitpid(child, 0)[1]
    signal.signal(signal.SIGINT, before)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.WEXITSTATUS(status), said


def _pass_on(out):
    said = b""
    while True:
        part = os.read(out, 65536)
        if not part:
            os.close(out)
            return said
        said += part
        try:
            os.write(1, part)
        except OSError:
            continue  # nobody reads; the submission matters more


def _job_id(said):
    """The id in `Submitted batch job 7`, `Submitted batch job 7 on cluster x`, `7`, `7;x`."""
    for line in said.decode("ascii", "replace").split("\n"):
        words = line.replace(";", " ").split()
        if words[:3] == ["Submitted", "batch", "job"]:
            words = words[3:]
        if words and words[0].isdigit():
            return int(words[0])
    return None


def _tell(chain, request, job):
    """Register the chain; that this fails costs nothing but a line."""
    try:
        import mirage_register

        if job is None:
            raise mirage_register.Unreachable("sbatch named no job")
        mirage_register.register(chain.id, job, request, chain.call.environ)
    except Exception as error:
        if not chain.call.quiet():
            sys.stderr.write(
                "mirage: not reached (%s); the chain runs all the same, each link queueing when"
                " the last one ends, until Mirage is back and adopts it\n" % (error,)
            )
