"""sbatch inside a link: the chain's next link stands already, and no link starts another chain.

A script from before Mirage puts itself into the queue again. The chain does that for it, so each
such submission would be a job too many, and with a request in the script a chain too many.
"""

import os

from mirage_wrapper import invocation

AROUND = "`env -u MIRAGE_LINK sbatch ...`"
BELOW = "SLURM_MIRAGE_PLAIN"  # Slurm hands names of its own down under --export=NONE too
AROUND_BELOW = "`env -u %s -u MIRAGE_CHAIN sbatch ...`" % (BELOW,)
OTHER_ARGUMENTS = "this chain's own script with other arguments"
OVER = (("done", "is done"), ("stop", "was stopped"), ("paused", "is paused"))
AT_AN_END = frozenset(["afterany", "aftercorr", "afternotok", "afterok"])


class Link(object):
    """The link that this process is part of, and what its chain was submitted with."""

    __slots__ = ("directory", "index", "job", "links")

    def __init__(self, directory, index, job, links):
        self.directory = directory
        self.index = index
        self.job = job
        self.links = links

    def read(self, *names):
        with open(os.path.join(self.directory, *names), "rb") as kept:
            return kept.read()

    def first_line(self, *names):
        try:
            return os.fsdecode(self.read(*names).split(b"\n", 1)[0])
        except OSError:
            return ""

    def words(self):
        """Those of the chain's own submission."""
        return [os.fsdecode(word) for word in self.read("argv").split(b"\0")[:-1]]

    def carriers(self):
        """The bytes of the chain's carrier; the links to a script's neighbours lie beside it."""
        folder = os.path.join(self.directory, "carrier")
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        own = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
        return [text for text in map(self.read, own) if invocation.CARRIER_MARK in text[:200]]


def find(environ):
    """The link whose job this is; None where a job only inherited the names of one.

    The chain's directory has to say so: a link of which nothing can be read is a stale name.
    """
    directory, index = environ.get("MIRAGE_DIR", ""), environ.get("MIRAGE_LINK", "")
    job = environ.get("SLURM_JOB_ID", "")
    if not (directory and index.isdigit() and job.isdigit()):
        return None
    links = environ.get("MIRAGE_LINKS", "")
    link = Link(directory, int(index), job, int(links) if links.isdigit() else None)
    known = [link.first_line(folder, index) for folder in ("started", "jobs")]
    return link if job in known else None


def submit(call, link, head):
    """Do what is right for this call inside `link`: the exit code, or no return."""
    own = _is_own(call, link)
    if own:
        block = invocation.leading_block(invocation.script_bytes(call))
        call.said = invocation.directives(block, call.read)
    if own and _is_the_next_link(call, link):
        return _name_next(call, link)
    if call.piped is not None:
        head = invocation.leading_block(call.piped)
    if own or _asks(call, head):
        _make_plain(call, OTHER_ARGUMENTS if own else "no chain begins inside a link", AROUND)
    return invocation.become_sbatch(call)


def submit_below(call, head):
    """The same in a job that a link has submitted as a plain one, and in those that follow it."""
    if _asks(call, head):
        _make_plain(call, "no chain begins in a plain job of a link", AROUND_BELOW)
    return invocation.become_sbatch(call)


def _make_plain(call, why, around):
    invocation.complain("mirage: %s: submitted as one plain job; %s submits a chain" % (why, around))
    # Its job's own sbatch would ask once more: by MIRAGE_CHAIN, by lines of the script, by options.
    call.environ["MIRAGE_CHAIN"] = "0"
    call.environ[BELOW] = "1"
    call.environ.pop("MIRAGE_TOTAL", None)


def _asks(call, head):
    if invocation.CARRIER_MARK in head:
        return False
    if not invocation.wants(call.reading, call.environ, head):
        return False
    from mirage_wrapper.settings import settings_of

    return settings_of(call, head) is not None


def _is_own(call, link):
    """Is this the script that the chain runs: the same bytes, or the carrier around them?"""
    reading = call.reading
    named = reading.script is not None
    if reading.not_understood is not None or (named and call.path is None):
        return False
    try:
        script = _lines(invocation.script_bytes(call))
        return any(_holds(_lines(carrier), script) for carrier in link.carriers())
    except OSError:  # a closed input, or a directory that is gone
        return False


def _lines(text):
    """Without blank lines: sbatch drops these from the scripts of heterogeneous jobs."""
    return b"".join(line + b"\n" for line in text.split(b"\n") if line.strip())


def _holds(carrier, script):
    return carrier == script or carrier.endswith(invocation.END_OF_CORE + script)


def _is_the_next_link(call, link):
    """Would this job be what the next link is? With the chain's arguments or none it would.

    A job that waits for this one's end and counts down (`sbatch -d afterany:$SLURM_JOB_ID "$0" 2`)
    is the script's next step, which the chain already has.
    """
    arguments, chains = _arguments(call.reading), _arguments(call.read(link.words()))
    if arguments and arguments[0].startswith("mirage:"):  # the carrier's own word
        del arguments[0]
    if arguments == chains or not any(arguments):  # `sbatch "$0" "$1"` without a first argument
        return True
    return _without_numbers(arguments) == _without_numbers(chains) and _waits_for(link.job, call)


def _arguments(reading):
    return [] if reading.script is None else reading.words[reading.script + 1 :]


def _without_numbers(words):
    bare = ["".join(c for c in word if not c.isdigit()) for word in words]
    return [word for word in bare if word]


def _waits_for(job, call):
    given = call.reading.last("dependency") or call.said.last("dependency") or ""
    for term in given.replace("?", ",").split(","):
        kind, colon, jobs = term.partition(":")
        if term == "singleton" or (not colon and term == job):
            return True
        if kind in AT_AN_END and job in jobs.split(":"):
            return True
    return False


def _name_next(call, link):
    """Say which job the next link is, as sbatch says it of a new one."""
    call.code = 0  # whatever happens to these words, nothing is submitted
    job, why = _next_of(link)
    invocation.complain("mirage: %s: nothing was submitted; %s submits all the same" % (why, AROUND))
    if job and not call.reading.has("quiet"):
        clusters = invocation.clusters_of(call.reading, call.said, call.environ)
        cluster = call.environ.get("SLURM_CLUSTER_NAME") or clusters if clusters else ""
        parsable = call.reading.has("parsable")
        line = job if parsable else "Submitted batch job " + job
        if cluster:
            line += (";%s" if parsable else " on cluster %s") % (cluster,)
        os.write(1, os.fsencode(line + "\n"))
    return 0


def _next_of(link):
    """The job of the next link, or "" where none stands; and half a sentence about it."""
    for marker, is_over in OVER:
        if os.path.exists(os.path.join(link.directory, marker)):
            return "", "this chain %s, and no further link begins" % (is_over,)
    if link.links is not None and link.index >= link.links:
        return "", "this is the last of the chain's %d links" % (link.links,)
    later = str(link.index + 1)
    job = link.first_line("jobs", later)
    if not job.isdigit():
        return "", "Mirage submits link %s of this chain, which is not there yet" % (later,)
    return job, "link %s of this chain is job %s already" % (later, job)
