"""`mirage chain` where no service is known: what the chain's directory and Slurm say of the user's own chains.

`api.chain_files` reads and judges the chains, as it does for programs in Python.
"""

import os
import sys

from mirage_slurm.api import chain_files, reports
from mirage_slurm.api.chain import Chain
from mirage_slurm.client import chain_lookup
from mirage_slurm.client.rest import BadInput, CommandError, SlurmFailed
from mirage_slurm.command import terminal as screen
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
    rows = [row for row in _list_rows() if values["state"] in (None, row["state"])][
        : values["limit"]
    ]
    if values["json"]:
        return _print_json(rows)
    _note(find_state_directory(os.environ))
    if not rows:
        screen.print_text("no chains")
        return 0
    terminal = screen.find_terminal(os.environ)
    cells = [
        [row["chain_id"], row["state"], row["links"], row["script"], row["says"]] for row in rows
    ]
    _print_table(
        ("chain", "state", "links", "script", "last link"), cells, ("script", "last link"), terminal
    )
    return 0


def _refuse_others(user):
    if user is not None and user != chain_lookup.get_own_name():
        raise BadInput(
            "without a service only your own chains are known: leave --user out, or set MIRAGE_URL=https://HOST"
        )


def _list_rows():
    """Return the user's chains, the newest first."""
    queue = chain_files.Queue()
    rows = [_build_row(overview) for overview in chain_files.list_overviews(queue)]
    for reason in queue.failures.values():
        sys.stderr.write(
            "mirage: Slurm does not say which jobs are in the queue (%s): states are by the chains' files\n"
            % (screen.escape_unprintable(reason),)
        )
    return rows


def _build_row(overview):
    files, row, report = overview
    planned = "?" if row.planned is None else row.planned
    return {
        "chain_id": files.id,
        "state": report.state,
        "says": screen.escape_unprintable(row.condition),
        "script": screen.escape_unprintable(row.script),
        "links": "%d of %s" % (row.begun, planned),
        "directory": files.directory,
    }


def _show(values):
    files = _choose_chain(values["chain"])
    report = files.read_seen_report()
    sentences = [screen.escape_unprintable(sentence) for sentence in report.sentences]
    links = [_build_link(link) for link in report.links]
    if values["json"]:
        chain = {"chain_id": files.id, "state": report.state, "directory": files.directory}
        return _print_json(dict(chain, links=links, notes=sentences))
    _note(files.directory)
    terminal = screen.find_terminal(os.environ)
    screen.print_text("chain %s is %s" % (files.id, report.state))
    cells = [
        [str(link["index"]), str(link["job_id"]), link["says"]]
        for link in links[-values["links"] :]
    ]
    _print_table(("link", "job", "state"), cells, ("state",), terminal)
    for sentence in sentences:
        screen.print_wrapped(sentence, terminal)
    return 0


def _build_link(link):
    says = screen.escape_unprintable(link.note)
    return {"index": link.number, "job_id": link.job_id, "says": says}


def _explain(values):
    """Print the plan of the running link, and the newest lines of the chain's log."""
    files = _choose_chain(values["chain"])
    sentences = files.read_seen_report().sentences
    entries = _read_log(files.directory)[: -values["limit"] - 1 : -1]
    if values["json"]:
        return _print_json([{"at": at, "says": says} for at, says in entries])
    _note(files.directory)
    for sentence in sentences:
        screen.print_text(screen.escape_unprintable(sentence) + "\n")
    for at, says in entries:
        screen.print_text("%s  %s" % (format_epoch(at), says))
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
    return [
        (int(at), screen.escape_unprintable(says))
        for at, _, says in parts
        if at.isdigit() and len(at) < 12
    ]


def _pause(values):
    files = _choose_chain(values["chain"])
    jobs = [str(job.job_id) for job in files.find_queued() if job.state == "PENDING"]
    if not jobs:
        raise CommandError(
            "chain %s has no link that waits, so there is nothing to pause" % (files.id,)
        )
    files.run_slurm(["scontrol", "uhold", ",".join(jobs)])
    return _report(values, files.id, "paused", "job %s is held" % (", ".join(jobs),))


def _resume(values):
    files = _choose_chain(values["chain"])
    queued = files.find_queued()
    held = [str(job.job_id) for job in queued if job.reason.startswith("JobHeld")]
    if held:
        files.run_slurm(["scontrol", "release", ",".join(held)])
        return _report(values, files.id, "active", "job %s is released" % (", ".join(held),))
    if queued and not any(marker in files.read_status().lines for marker in reports.MARKERS):
        raise CommandError(
            "chain %s is active already: its job %d is not held" % (files.id, queued[-1].job_id)
        )
    says = files.run_link("resume").strip()
    return _report(values, files.id, "active", says or "its next link is in the queue")


def _cancel(values):
    files = _choose_chain(values["chain"])
    jobs = Chain(files.directory).cancel()
    if jobs:
        names = ", ".join(map(str, jobs))
        return _report(values, files.id, "cancelled", "job %s is cancelled" % (names,))
    return _report(values, files.id, files.read_report().state, "it had no job")


def _report(values, chain_id, state, says):
    if values["json"]:
        return _print_json({"chain_id": chain_id, "state": state, "says": says})
    screen.print_text("chain %s is %s: %s" % (chain_id, state, screen.escape_unprintable(says)))
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
    rows = _list_rows()
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


def _print_json(value):
    import json

    screen.print_text(json.dumps(value, indent=2))
    return 0


_VERBS = {
    "list": _list,
    "show": _show,
    "explain": _explain,
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
}
