"""Submit the first link of a chain through the real sbatch, and tell Mirage of it."""

import os
import time

import mirage_carrier
import mirage_register
import mirage_request
import mirage_settings
from mirage_sbatch import become_sbatch, say, script_bytes, signals_for_a_program

ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without i, l, o, u; in ASCII order
FIRST_LINK_ONLY = frozenset(["begin", "comment", "dependency", "hold", "parsable", "quiet"])
ASK_S = 0.5
# What asks for a chain, asks once; and a name of another chain's link is none of this one.
NOT_FOR_LINKS = frozenset(["MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_TOTAL", "SLURM_MIRAGE_PLAIN"])


class Chain(object):
    """A chain in the making: where its files are, and what each of its links is submitted with."""

    __slots__ = ("call", "comment", "directory", "id", "said", "script", "settings")

    def __init__(self, call, settings):
        self.call = call
        self.said = call.said
        self.settings = settings
        self.id = new_id()
        self.script = mirage_carrier.Script(name_of(call), _sound(call))
        self.directory = None
        self.comment = mirage_settings.from_comment(call.comment())[0]
        told = _for_others(settings)
        self.comment = (self.comment + " " + told).strip(" ") if told else self.comment

    def tag(self, link):
        return "mirage:%s:%d" % (self.id, link)

    def clusters(self):
        return mirage_request.clusters_of(self.call.reading, self.said, self.call.environ)

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


def submit(call, settings):
    """Submit the first link; the exit code is the real sbatch's."""
    _open_streams()
    try:
        chain = Chain(call, settings)
    except Unsound:
        return become_sbatch(call)
    mirage_carrier.lay_out(chain)
    try:
        child, out = start(call.real, first_words(chain), first_environment(call.environ))
    except Exception:
        mirage_carrier.take_away(chain)
        raise
    said_by_sbatch = await_end(call, child, out)
    if call.code != 0:
        mirage_carrier.take_away(chain)
        return call.code
    job = job_id(said_by_sbatch) or _ask_queue(chain)
    if settings.presubmit == "all" and job is not None:
        import mirage_presubmit

        mirage_presubmit.submit_later(chain, job)
    _tell(chain, job)
    if _calls_itself(chain):
        name = mirage_request.shown(chain.script.name)
        say(call, "%s calls sbatch on itself: a chain makes that unnecessary, and stops it" % (name,))
    return call.code


def new_id():
    """100 bits that sort by time: 35 of seconds, 45 of chance, and 20 that tie the id to its user:
    whoever reads it in the queue cannot register it as theirs (mirage/domain/chain.py, made_for)."""
    bits = (int(time.time()) & (2**35 - 1)) << 45
    bits |= int.from_bytes(os.urandom(6), "big") & (2**45 - 1)
    made = _letters(bits, 75)
    words = "%s:%d" % (made, os.getuid())
    return made + _letters(int(mirage_register._sha256(words.encode("ascii"))[:5], 16), 15)


def _letters(bits, shift):
    return "".join(ID_LETTERS[bits >> low & 31] for low in range(shift, -1, -5))


def name_of(call):
    """The name that sbatch would give the job, which is that of the carrier's file."""
    if call.reading.last("wrap") is not None:
        return "wrap"
    if call.reading.script is None:
        return "sbatch"
    return os.path.basename(call.reading.words[call.reading.script])


def _open_streams():
    """A closed 0, 1 or 2 would be taken by the next file that is opened; sbatch gets it closed."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)


def _sound(call):
    script = script_bytes(call)
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


def later_words(chain):
    """The user's options for a later link: those before and those after what each link adds."""
    before, after = chain.own_words(FIRST_LINK_ONLY)
    undone = (("begin", "--begin=now"), ("dependency", "--dependency=0"))
    return before + [word for name, word in undone if chain.said.has(name)], after


def first_environment(environ):
    return {name: value for name, value in environ.items() if name not in NOT_FOR_LINKS}


def start(real, words, environ):
    """Start the real sbatch: its process, and what it says on standard output.

    Raises OSError where no sbatch came to run, be it for want of processes, files or memory.
    """
    out, theirs = os.pipe()
    trouble, their_trouble = os.pipe()  # an exec that succeeds closes it
    child = os.fork()
    if child == 0:
        try:
            os.dup2(theirs, 1)
            signals_for_a_program()
            os.execve(real, ["sbatch"] + words, environ)  # noqa: S606 - an argument vector
        except OSError as error:
            os.write(their_trouble, b"%d" % (error.errno,))
        finally:
            os._exit(127)
    os.close(theirs)
    os.close(their_trouble)
    with os.fdopen(trouble, "rb") as told:
        number = told.read()
    if number:
        os.waitpid(child, 0)
        raise OSError(int(number), os.strerror(int(number)), real)
    return child, out


def await_end(call, child, out):
    """Pass sbatch's output on until it has ended; its exit code is the answer from then on."""
    import _signal

    # The child decides what ^C means; that nobody reads matters less than the submission.
    before = [(n, _signal.signal(n, _signal.SIG_IGN)) for n in (_signal.SIGINT, _signal.SIGPIPE)]
    try:
        said = _pass_on(out)
    finally:
        status = os.waitpid(child, 0)[1]
        signalled = os.WIFSIGNALED(status)
        call.code = 128 + os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
    for number, handler in before:
        _signal.signal(number, handler)
    if signalled:
        if os.WTERMSIG(status) != _signal.SIGKILL:
            _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return said


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


def job_id(said):
    """The id in `Submitted batch job 7`, `Submitted batch job 7 on cluster x`, `7`, `7;x`."""
    for line in said.decode("ascii", "replace").split("\n"):
        words = line.replace(";", " ").split()
        if words[:3] == ["Submitted", "batch", "job"]:
            words = words[3:]
        if words and words[0].isdigit():
            return int(words[0])
    return None


def _ask_queue(chain):
    """The id of a job that was submitted with --quiet, which keeps it back; None if unknown."""
    import _signal

    squeue = os.path.join(os.path.dirname(chain.call.real), "squeue")
    words = ["squeue", "-h", "--all", "-t", "all", "-u", str(os.getuid()), "-o", "%k %A"]
    clusters = chain.clusters()
    words += ["-M", clusters] if clusters else []
    environ = chain.call.environ  # which may narrow the answer
    environ = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    out, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(theirs, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, ASK_S)  # goes on in squeue, and ends it
            signals_for_a_program()
            os.execve(squeue, words, environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    os.close(theirs)
    with os.fdopen(out, "rb") as answer:
        shown = answer.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    after = shown.rpartition(chain.tag(1) + " ")[2].split()
    return int(after[0]) if after and after[0].isdigit() else None


def _tell(chain, job):
    """Register the chain; that this fails costs nothing but a line."""
    settings = chain.settings
    if settings.service == "none":
        told = "chain %s: %s, planned by its links alone%s"
        say(chain.call, told % (chain.id, _length(settings), _ruled(settings)))
        return
    try:
        if job is None:
            raise mirage_register.Unreachable("sbatch named no job")
        mirage_register.register(chain.id, job, chain.settings, chain.call.environ, _recipe(chain))
    except Exception as error:
        say(
            chain.call,
            "chain %s is not registered (%s); it runs all the same, its links plan by themselves,"
            " until Mirage finds it by its comment%s" % (chain.id, error, _ruled(settings)),
        )
    else:
        say(chain.call, "chain %s: %s" % (chain.id, _length(chain.settings)))


def _ruled(settings):
    """By which rule links plan, where another was asked for."""
    if settings.policy in (None, "quantile"):
        return ""
    return "; without a service `quantile` decides, not %s" % (settings.policy,)


def _calls_itself(chain):
    """Does a line of the script name sbatch and, behind it, the script?"""
    import re

    own = rb"\$\{?0\b|\$\{?BASH_SOURCE\b|\b__file__\b|\bargv\[0\]"
    if chain.call.path is not None:
        own += rb"|(?<![\w.-])" + re.escape(os.fsencode(chain.script.name)) + rb"(?![\w.-])"
    lines = chain.script.text.replace(b"\\\n", b" ").split(b"\n")
    calls = re.compile(rb"\bsbatch\b.*(?:" + own + rb")")
    return any(calls.search(line) for line in lines if not line.lstrip().startswith(b"#"))


def _length(settings):
    if settings.links == mirage_settings.ANY_LINKS and settings.total_s is not None:
        return "links until they have run for %d min in all" % (settings.total_s // 60,)
    return "%d link%s" % (settings.links, "s" * (settings.links != 1))


def _recipe(chain):
    """For a chain without standing jobs: what another needs who submits the next link."""
    if chain.settings.mode != "submit":
        return None
    import mirage_recipe

    return mirage_recipe.of(chain)
