"""sbatch inside a link: the chain's next link stands already, and no link starts another chain.

A script from before Mirage puts itself into the queue again. The chain does that for it, so each
such submission would be a job too many, and with a request in the script a chain too many.
"""

import os

from mirage_wrapper import carrier, invocation, state

AROUND = "`env -u MIRAGE_LINK sbatch ...`"
BELOW = "SLURM_MIRAGE_PLAIN"  # Slurm hands names of its own down under --export=NONE too
AROUND_BELOW = "`env -u %s -u MIRAGE_CHAIN sbatch ...`" % (BELOW,)
OTHER_ARGUMENTS = "this chain's own script with other arguments"
OVER = (("done", "is done"), ("stop", "was stopped"), ("paused", "is paused"))
NEXT = "link "  # so begins what is said of a next link that there is to be
AT_AN_END = frozenset(["afterany", "aftercorr", "afternotok", "afterok"])


class CurrentLink(object):
    """The link that this process is part of, and what its chain was submitted with."""

    __slots__ = ("directory", "index", "job", "links")

    def __init__(self, directory, index, job, links):
        self.directory = directory
        self.index = index
        self.job = job
        self.links = links

    def read_file(self, *names):
        with open(os.path.join(self.directory, *names), "rb") as kept:
            return kept.read()

    def read_first_line(self, *names):
        try:
            return os.fsdecode(self.read_file(*names).split(b"\n", 1)[0])
        except OSError:
            return ""

    def read_words(self):
        """Those of the chain's own submission."""
        return [os.fsdecode(word) for word in self.read_file("argv").split(b"\0")[:-1]]

    def read_carriers(self):
        """The bytes of the chain's carrier; the links to a script's neighbours lie beside it."""
        folder = os.path.join(self.directory, "carrier")
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        own = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
        return [text for text in map(self.read_file, own) if invocation.CARRIER_MARK in text[:200]]


def find_link(environ):
    """The link whose job this is; None where a job only inherited the names of one.

    The chain's directory has to say so: a link of which nothing can be read is a stale name.
    """
    directory, index = environ.get("MIRAGE_DIR", ""), environ.get("MIRAGE_LINK", "")
    job = environ.get("SLURM_JOB_ID", "")
    if not (directory and index.isdigit() and job.isdigit()):
        return None
    links = environ.get("MIRAGE_LINKS", "")
    link = CurrentLink(directory, int(index), job, int(links) if links.isdigit() else None)
    known = [link.read_first_line(folder, index) for folder in ("started", "jobs")]
    return link if job in known else None


def submit_inside(call, link, head):
    """Do what is right for this call inside `link`: the exit code, or no return."""
    own = _is_own(call, link)
    if own:
        block = invocation.cut_leading_block(invocation.read_script(call))
        call.said = invocation.read_directives(block, call.read_words)
    why = OTHER_ARGUMENTS if own else "no chain begins inside a link"
    if own and _is_next_link(call, link):
        _take_word_back(link)
        job, standing = _find_next_job(link)
        changes = state.find_changes(call, link) if standing.startswith(NEXT) else {}
        if changes and not any(state.READS_VALUES in text for text in link.read_carriers()):
            standing += ", with the environment of the first submission"  # an older release's
            changes = {}
        try:
            why = state.hand_on(link, changes) if changes else None
        except OSError as error:  # a plain job would do this step beside the next link
            call.code = 1
            invocation.print_error(
                "mirage: link %d of this chain cannot have %s of this call (%s): nothing was submitted"
                % (link.index + 1, state.format_names(changes), error.strerror)
            )
            return call.code
        if why is None:
            _note_handed(link, job)
            return _print_next_job(call, job, standing, changes)
    if call.piped is not None:
        head = invocation.cut_leading_block(call.piped)
    if own or _has_request(call, head):
        _make_plain(call, why, AROUND)
    return invocation.exec_sbatch(call)


def submit_below(call, head):
    """The same in a job that a link has submitted as a plain one, and in those that follow it."""
    if _has_request(call, head):
        _make_plain(call, "no chain begins in a plain job of a link", AROUND_BELOW)
    return invocation.exec_sbatch(call)


def _make_plain(call, why, around):
    invocation.print_error(
        "mirage: %s: submitted as one plain job; %s submits a chain" % (why, around)
    )
    # Its job's own sbatch would ask once more: by MIRAGE_CHAIN, by lines of the script, by options.
    call.environ["MIRAGE_CHAIN"] = "0"
    call.environ[BELOW] = "1"
    call.environ.pop("MIRAGE_TOTAL", None)


def _has_request(call, head):
    if invocation.CARRIER_MARK in head:
        return False
    if not invocation.has_request(call.reading, call.environ, head):
        return False
    from mirage_wrapper.settings import read_settings

    return read_settings(call, head) is not None


def _is_own(call, link):
    """Is this the script that the chain runs: the same bytes, or the carrier around them?"""
    reading = call.reading
    named = reading.script is not None
    if reading.not_understood is not None or (named and call.path is None):
        return False
    try:
        script = _drop_blank_lines(invocation.read_script(call))
        return any(
            _has_script(_drop_blank_lines(carrier), script) for carrier in link.read_carriers()
        )
    except OSError:  # a closed input, or a directory that is gone
        return False


def _drop_blank_lines(text):
    """Drop blank lines, as sbatch does from the scripts of heterogeneous jobs."""
    return b"".join(line + b"\n" for line in text.split(b"\n") if line.strip())


def _has_script(carrier, script):
    return carrier == script or carrier.endswith(invocation.END_OF_CORE + script)


def _is_next_link(call, link):
    """Would this job be what the next link is? With the chain's arguments or none it would.

    A job that waits for this one's end and counts down (`sbatch -d afterany:$SLURM_JOB_ID "$0" 2`)
    is the script's next step, which the chain already has.
    """
    arguments, chains = (
        _get_arguments(call.reading),
        _get_arguments(call.read_words(link.read_words())),
    )
    if arguments and arguments[0].startswith("mirage:"):  # the carrier's own word
        del arguments[0]
    if arguments == chains or not any(arguments):  # `sbatch "$0" "$1"` without a first argument
        return True
    return _strip_numbers(arguments) == _strip_numbers(chains) and _is_waiting_for(link.job, call)


def _get_arguments(reading):
    return [] if reading.script is None else reading.words[reading.script + 1 :]


def _strip_numbers(words):
    bare = ["".join(c for c in word if not c.isdigit()) for word in words]
    return [word for word in bare if word]


def _is_waiting_for(job, call):
    given = call.reading.get_value("dependency") or call.said.get_value("dependency") or ""
    for term in given.replace("?", ",").split(","):
        kind, colon, jobs = term.partition(":")
        if term == "singleton" or (not colon and term == job):
            return True
        if kind in AT_AN_END and job in jobs.split(":"):
            return True
    return False


def _print_next_job(call, job, standing, changes):
    """Say which job the next link is, as sbatch says it of a new one."""
    call.code = 0  # whatever happens to these words, nothing is submitted
    gets = "; the link gets %s of this call" % (state.format_names(changes),) if changes else ""
    invocation.print_error(
        "mirage: %s: nothing was submitted%s; %s submits all the same" % (standing, gets, AROUND)
    )
    if job and not call.reading.has_option("quiet"):
        clusters = invocation.find_clusters(call.reading, call.said, call.environ)
        cluster = call.environ.get("SLURM_CLUSTER_NAME") or clusters if clusters else ""
        parsable = call.reading.has_option("parsable")
        line = job if parsable else "Submitted batch job " + job
        if cluster:
            line += (";%s" if parsable else " on cluster %s") % (cluster,)
        os.write(1, os.fsencode(line + "\n"))
    return 0


def _take_word_back(link):
    """A script that has cancelled the next link (scancel of this plugin) and submits it once more
    wants one: this link puts it in place at its end."""
    if link.read_first_line("done").startswith("link %d cancelled link " % (link.index,)):
        for name in (os.path.join("jobs", str(link.index + 1)), "done"):
            try:
                os.unlink(os.path.join(link.directory, name))
            except OSError:
                pass  # then the chain stays done, and the line says so


def _note_handed(link, job):
    """Write down that the script knows the next link's job (mirage_has_script_cancelled in
    carrier_standby.sh reads it)."""
    name = "handed.%d" % (link.index + 1,)
    if job and link.read_first_line(name) != job:
        path = os.path.join(link.directory, name)
        try:
            carrier.write_file("%s.new.%d" % (path, os.getpid()), os.fsencode(job) + b"\n")
            os.rename("%s.new.%d" % (path, os.getpid()), path)
        except OSError:
            pass  # a cancelled standby is then made anew once


def _find_next_job(link):
    """The job of the next link, or "" where none stands; and half a sentence about it."""
    for marker, is_over in OVER:
        if os.path.exists(os.path.join(link.directory, marker)):
            return "", "this chain %s, and no further link begins" % (is_over,)
    if link.links is not None and link.index >= link.links:
        return "", "this is the last of the chain's %d links" % (link.links,)
    later = str(link.index + 1)
    job = link.read_first_line("jobs", later)
    if not job.isdigit():
        return "", NEXT + "%s of this chain has no job yet, and Mirage will submit it" % (later,)
    return job, NEXT + "%s of this chain is job %s already" % (later, job)
