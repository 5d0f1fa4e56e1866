"""sbatch inside a link: the chain's next link is queued already, and no link starts another chain.

A script from before Mirage submits itself again. The chain does that for it, so each such
submission would be a job too many, and with a request in the script a chain too many.
"""

import os

from mirage_slurm.wrapper import carrier, invocation, state

AROUND = "`env -u MIRAGE_LINK sbatch ...`"
BELOW = "SLURM_MIRAGE_PLAIN"  # Slurm passes SLURM_ variables on under --export=NONE too
AROUND_BELOW = "`env -u %s -u MIRAGE_CHAIN sbatch ...`" % (BELOW,)
OTHER_ARGUMENTS = "this chain's own script with other arguments"
OVER = (("done", "is done"), ("stop", "was stopped"), ("paused", "is paused"))
NEXT = "link "  # _find_next_job's text begins so if there is to be a next link
AT_AN_END = frozenset(["afterany", "aftercorr", "afternotok", "afterok"])


class CurrentLink(object):
    """The link that this process is part of, with access to the files of its chain."""

    __slots__ = ("directory", "index", "job", "links")

    def __init__(self, directory, index, job, links):
        self.directory = directory
        self.index = index
        self.job = job
        self.links = links

    def read_file(self, *names):
        with open(os.path.join(self.directory, *names), "rb") as file:
            return file.read()

    def read_first_line(self, *names):
        try:
            return os.fsdecode(self.read_file(*names).split(b"\n", 1)[0])
        except OSError:
            return ""

    def read_words(self):
        """Return sbatch's words of the chain's own submission."""
        return [os.fsdecode(word) for word in self.read_file("argv").split(b"\0")[:-1]]

    def read_carriers(self):
        """Return the chain's carriers in bytes. The folder also has links to the script's neighbours."""
        folder = os.path.join(self.directory, "carrier")
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        carriers = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
        return [
            text for text in map(self.read_file, carriers) if invocation.CARRIER_MARK in text[:200]
        ]


def find_link(environ):
    """Return the link whose job this is; None if the job only inherited a link's variables.

    The chain's directory has to say so: if nothing can be read there, the variables are stale.
    """
    directory, index = environ.get("MIRAGE_DIR", ""), environ.get("MIRAGE_LINK", "")
    job = environ.get("SLURM_JOB_ID", "")
    if not (directory and index.isdigit() and job.isdigit()):
        return None
    links = environ.get("MIRAGE_LINKS", "")
    link = CurrentLink(directory, int(index), job, int(links) if links.isdigit() else None)
    jobs = [link.read_first_line(folder, index) for folder in ("started", "jobs")]
    return link if job in jobs else None


def submit_inside(call, link, head):
    """Handle this call inside `link`. Return the exit code, or do not return (exec)."""
    is_own = _is_own(call, link)
    if is_own:
        block = invocation.cut_leading_block(invocation.read_script(call))
        call.directives = invocation.read_directives(block, call.read_words)
    why = OTHER_ARGUMENTS if is_own else "no chain begins inside a link"
    if is_own and _is_next_link(call, link):
        _undo_end(link)
        job, description = _find_next_job(link)
        changes = state.find_changes(call, link) if description.startswith(NEXT) else {}
        if changes and not any(state.READS_VALUES in text for text in link.read_carriers()):
            description += ", with the environment of the first submission"  # an older carrier
            changes = {}
        try:
            why = state.write_changes(link, changes) if changes else None
        except OSError as error:  # not a plain job, which would do this step beside the next link
            call.code = 1
            invocation.print_error(
                "mirage: link %d of this chain cannot have %s of this call (%s): nothing was submitted"
                % (link.index + 1, state.format_names(changes), error.strerror)
            )
            return call.code
        if why is None:
            _record_handed_job(link, job)
            return _print_next_job(call, job, description, changes)
    if call.piped is not None:
        head = invocation.cut_leading_block(call.piped)
    if is_own or _has_request(call, head):
        _make_plain(call, why, AROUND)
    return invocation.exec_sbatch(call)


def submit_below(call, head):
    """Handle this call in a plain job that a link has submitted, or in a job that such a job submits."""
    if _has_request(call, head):
        _make_plain(call, "no chain begins in a plain job of a link", AROUND_BELOW)
    return invocation.exec_sbatch(call)


def _make_plain(call, why, around):
    invocation.print_error(
        "mirage: %s: submitted as one plain job; %s submits a chain" % (why, around)
    )
    # Otherwise sbatch in that job would ask for a chain again: by MIRAGE_CHAIN, lines or options.
    call.environ["MIRAGE_CHAIN"] = "0"
    call.environ[BELOW] = "1"
    call.environ.pop("MIRAGE_TOTAL", None)


def _has_request(call, head):
    if invocation.CARRIER_MARK in head:
        return False
    if not invocation.has_request(call.reading, call.environ, head):
        return False
    from mirage_slurm.wrapper.settings import read_settings

    return read_settings(call, head) is not None


def _is_own(call, link):
    """Return whether this is the script that the chain runs: the same bytes, or the chain's carrier."""
    reading = call.reading
    is_named = reading.script is not None
    if reading.not_understood is not None or (is_named and call.path is None):
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
    """Return whether this job would do the next link's work. It would with the chain's arguments, and
    with none.

    It also would if the job waits for this one's end and the arguments differ by numbers only
    (`sbatch -d afterany:$SLURM_JOB_ID "$0" 2`): that is the script's next step.
    """
    arguments, chain_arguments = (
        _get_arguments(call.reading),
        _get_arguments(call.read_words(link.read_words())),
    )
    if arguments and arguments[0].startswith("mirage:"):  # the carrier's first argument
        del arguments[0]
    # `sbatch "$0" "$1"` in a script without arguments passes an empty one.
    if arguments == chain_arguments or not any(arguments):
        return True
    return _strip_numbers(arguments) == _strip_numbers(chain_arguments) and _is_waiting_for(
        link.job, call
    )


def _get_arguments(reading):
    return [] if reading.script is None else reading.words[reading.script + 1 :]


def _strip_numbers(words):
    bare = ["".join(c for c in word if not c.isdigit()) for word in words]
    return [word for word in bare if word]


def _is_waiting_for(job, call):
    dependency = (
        call.reading.get_value("dependency") or call.directives.get_value("dependency") or ""
    )
    for term in dependency.replace("?", ",").split(","):
        kind, colon, jobs = term.partition(":")
        if term == "singleton" or (not colon and term == job):
            return True
        if kind in AT_AN_END and job in jobs.split(":"):
            return True
    return False


def _print_next_job(call, job, description, changes):
    """Print the next link's job id as sbatch prints that of a new job, and say that nothing was
    submitted."""
    call.code = 0  # even if printing fails, nothing must be submitted
    addition = "; the link gets %s of this call" % (state.format_names(changes),) if changes else ""
    invocation.print_error(
        "mirage: %s: nothing was submitted%s; %s submits all the same"
        % (description, addition, AROUND)
    )
    if job and not call.reading.has_option("quiet"):
        clusters = invocation.find_clusters(call.reading, call.directives, call.environ)
        cluster = call.environ.get("SLURM_CLUSTER_NAME") or clusters if clusters else ""
        parsable = call.reading.has_option("parsable")
        line = job if parsable else "Submitted batch job " + job
        if cluster:
            line += (";%s" if parsable else " on cluster %s") % (cluster,)
        os.write(1, os.fsencode(line + "\n"))
    return 0


def _undo_end(link):
    """Undo the chain's end if the script has cancelled the next link by the plugin's scancel, and now
    submits it once more. This link queues the next one at its end."""
    if link.read_first_line("done").startswith("link %d cancelled link " % (link.index,)):
        for name in (os.path.join("jobs", str(link.index + 1)), "done"):
            try:
                os.unlink(os.path.join(link.directory, name))
            except OSError:
                pass  # then the chain stays done, and the line says so


def _record_handed_job(link, job):
    """Write down that the script knows the next link's job (mirage_has_script_cancelled in
    carrier/standby.sh reads it)."""
    name = "handed.%d" % (link.index + 1,)
    if job and link.read_first_line(name) != job:
        path = os.path.join(link.directory, name)
        try:
            carrier.write_file("%s.new.%d" % (path, os.getpid()), os.fsencode(job) + b"\n")
            os.rename("%s.new.%d" % (path, os.getpid()), path)
        except OSError:
            pass  # a cancelled standby is then made anew once


def _find_next_job(link):
    """Return the job of the next link ("" if there is none), and the beginning of a sentence about it."""
    for marker, is_over in OVER:
        if os.path.exists(os.path.join(link.directory, marker)):
            return "", "this chain %s, and no further link begins" % (is_over,)
    if link.links is not None and link.index >= link.links:
        return "", "this is the last of the chain's %d links" % (link.links,)
    next_index = str(link.index + 1)
    job = link.read_first_line("jobs", next_index)
    if not job.isdigit():
        return "", NEXT + "%s of this chain has no job yet, and Mirage will submit it" % (
            next_index,
        )
    return job, NEXT + "%s of this chain is job %s already" % (next_index, job)
