"""`mirage chain` where no service is known: what the chain's directory and Slurm say of the user's own chains.

`api.chain_files` reads and judges the chains, as it does for programs in Python.
"""

import os
import sys

from mirage_slurm.api import chain_files, reports
from mirage_slurm.api.chain import Chain
from mirage_slurm.client import chain_lookup
from mirage_slurm.client.printable import escape_unprintable
from mirage_slurm.client.rest import BadInput, CommandError, SlurmFailed
from mirage_slurm.command import terminal as screen
from mirage_slurm.command.directory_answers import (
    build_chain,
    build_chain_with_links,
    build_decision,
)
from mirage_slurm.command.instants import format_epoch
from mirage_slurm.command.tables import render_table
from mirage_slurm.wrapper.carrier import find_state_directory

_NOTE = "no service is named on this host: this is what %s and Slurm say (MIRAGE_URL=https://HOST names a service)"


def run_command(verb, values):
    """Run `mirage chain VERB` for the user's own chains, and return the exit code. Raises CommandError."""
    try:
        return _VERBS[verb](values)
    except chain_files.SlurmFailed as error:
        raise SlurmFailed(str(error)) from error
    except chain_files.ChainError as error:
        raise CommandError(str(error)) from error


def _list(values):
    _refuse_others(values["user"])
    queue = chain_files.Queue()
    overviews = [
        overview
        for overview in chain_files.list_overviews(queue)
        if values["state"] in (None, overview.report.state)
    ][: values["limit"]]
    if values["json"]:
        chains = [build_chain(files, report, queue) for files, _, report in overviews]
        _warn_of_failures(queue)
        return screen.print_json(chains)
    _warn_of_failures(queue)
    _note(find_state_directory(os.environ))
    if not overviews:
        screen.print_text("no chains")
        return 0
    terminal = screen.find_terminal(os.environ)
    cells = [list(map(escape_unprintable, _list_cells(overview))) for overview in overviews]
    _print_table(
        ("chain", "state", "links", "script", "last link"), cells, ("script", "last link"), terminal
    )
    return 0


def _refuse_others(user):
    if user is not None and user != chain_lookup.get_own_name():
        raise BadInput(
            "without a service only your own chains are known: leave --user out, or set MIRAGE_URL=https://HOST"
        )


def _warn_of_failures(queue):
    for reason in queue.failures.values():
        sys.stderr.write(
            "mirage: Slurm does not say which jobs are in the queue (%s): states are by the chains' files\n"
            % (escape_unprintable(reason),)
        )


def _list_cells(overview):
    files, row, report = overview
    links = "%d of %s" % (row.begun, "?" if row.planned is None else row.planned)
    return files.id, report.state, links, row.script, row.condition


def _show(values):
    files = _choose_chain(values["chain"])
    if values["json"]:
        return screen.print_json(build_chain_with_links(files))
    report = files.read_seen_report(chain_files.Queue())
    _note(files.directory)
    terminal = screen.find_terminal(os.environ)
    screen.print_text("chain %s is %s" % (files.id, report.state))
    cells = [
        [str(link.number), str(link.job_id), escape_unprintable(link.note)]
        for link in report.links[-values["links"] :]
    ]
    _print_table(("link", "job", "state"), cells, ("state",), terminal)
    for sentence in report.sentences:
        screen.print_wrapped(escape_unprintable(sentence), terminal)
    return 0


def _explain(values):
    """Print the plan of the running link, and the newest lines of the chain's log."""
    files = _choose_chain(values["chain"])
    entries = _read_log(files.directory)[: -values["limit"] - 1 : -1]
    if values["json"]:
        return screen.print_json([build_decision(files.id, at, text) for at, text in entries])
    _note(files.directory)
    for sentence in files.read_seen_report(chain_files.Queue()).sentences:
        screen.print_text(escape_unprintable(sentence) + "\n")
    for at, text in entries:
        screen.print_text("%s  %s" % (format_epoch(at), escape_unprintable(text)))
    if not entries:
        screen.print_text(
            "no decisions yet: the running link plans the next link's release soon after its start"
        )
    return 0


def _read_log(directory):
    """Return (epoch seconds, text) for each line of the chain's log; a line of another form is left out."""
    try:
        with open(os.path.join(directory, "log"), errors="replace") as lines:
            parts = [line.rstrip("\n").partition(" ") for line in lines]
    except OSError:
        return []
    return [(int(at), text) for at, _, text in parts if at.isdigit() and len(at) < 12]


def _pause(values):
    files = _choose_chain(values["chain"])
    jobs = [str(job.job_id) for job in files.find_queued() if job.state == "PENDING"]
    if not jobs:
        raise CommandError(
            "chain %s has no link that waits, so there is nothing to pause" % (files.id,)
        )
    files.run_slurm(["scontrol", "uhold", ",".join(jobs)])
    return _report(values, files, "paused", "job %s is held" % (", ".join(jobs),))


def _resume(values):
    files = _choose_chain(values["chain"])
    queued = files.find_queued()
    held_jobs = [str(job.job_id) for job in queued if job.reason.startswith("JobHeld")]
    if held_jobs:
        files.run_slurm(["scontrol", "release", ",".join(held_jobs)])
        return _report(values, files, "active", "job %s is released" % (", ".join(held_jobs),))
    if queued and not any(marker in files.read_status().lines for marker in reports.MARKERS):
        raise CommandError(
            "chain %s is active already: its job %d is not held" % (files.id, queued[-1].job_id)
        )
    says = files.run_link("resume").strip()
    return _report(values, files, "active", says or "its next link is in the queue")


def _cancel(values):
    files = _choose_chain(values["chain"])
    jobs = Chain(files.directory).cancel()
    if jobs:
        names = ", ".join(map(str, jobs))
        return _report(values, files, "cancelled", "job %s is cancelled" % (names,))
    return _report(values, files, files.read_report().state, "it had no job")


def _report(values, files, state, outcome):
    if values["json"]:
        return screen.print_json(dict(build_chain_with_links(files), state=state, note=outcome))
    screen.print_text("chain %s is %s: %s" % (files.id, state, escape_unprintable(outcome)))
    return 0


def _choose_chain(words):
    """Return the chain that is meant, as with a service. Raises BadInput."""
    words = words or _pick_chain()
    chain_lookup.check_words(words)
    chains = {files.id: files for files in chain_files.list_chains()}
    if words in chains:
        return chains[words]
    queue = chain_files.Queue()
    rows = [
        {"chain_id": files.id, "running": _find_jobs(files, queue) if words.isdigit() else []}
        for files in chains.values()
    ]
    return chains[chain_lookup.choose_chain(rows, words)]


def _pick_chain():
    queue = chain_files.Queue()
    rows = [
        {"chain_id": files.id, "state": report.state}
        for files, _, report in chain_files.list_overviews(queue)
    ]
    _warn_of_failures(queue)
    if not rows:
        raise BadInput(
            "you have no chain in %s: `sbatch --mirage-chain=8 job.sh` submits one"
            % (find_state_directory(os.environ),)
        )
    return chain_lookup.pick_chain(rows)


def _find_jobs(files, queue):
    """Return the ids of the jobs of a chain's links, with those that have not begun."""
    try:
        queued = files.find_queued(queue)
    except chain_files.SlurmFailed:
        queued = []
    return files.read_jobs() + [job.job_id for job in queued]


def _note(place):
    sys.stderr.write("mirage: %s\n" % (_NOTE % (place,),))


def _print_table(names, rows, wrapped, terminal):
    for line in render_table(names, rows, wrapped, terminal):
        screen.print_line(line, terminal)


_VERBS = {
    "list": _list,
    "show": _show,
    "explain": _explain,
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
}
