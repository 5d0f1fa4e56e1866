"""`mirage chain` where no service is known: what the chain's directory and Slurm say of the user's own chains.

`mirage-link status` reads the directory, so its words are those of that program.
"""

import os
import subprocess
import sys

from mirage_slurm.client import chain_lookup
from mirage_slurm.client.rest import BadInput, CommandError, SlurmFailed
from mirage_slurm.command import terminal as screen
from mirage_slurm.command.instants import format_epoch
from mirage_slurm.command.plugin_path import get_plugin_folder
from mirage_slurm.command.tables import render_table

_LIMIT_S = 60
_MARKERS = (("done", "finished"), ("stop", "cancelled"), ("paused", "paused"))
"""Files of a chain's directory, and the state of a chain that has one. The first counts."""
_NOTE = "no service is named on this host: this is what %s and Slurm say (MIRAGE_URL=https://HOST names a service)"


def run_command(verb, values):
    """Run `mirage chain VERB` for the user's own chains, and return the exit code. Raises CommandError."""
    return _VERBS[verb](values)


def _list(values):
    _refuse_others(values["user"])
    rows = [row for row in _list_rows() if values["state"] in (None, row["state"])][
        : values["limit"]
    ]
    if values["json"]:
        return _print_json(rows)
    _note(_get_base())
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
    rows = []
    for line in _run_link_program("status").splitlines():
        fields = line.split("\t")
        if len(fields) == 4 and os.path.isdir(os.path.join(_get_base(), fields[0])):
            chain_id, script, links, says = map(screen.escape_unprintable, fields)
            row = {"chain_id": chain_id, "state": _read_state(chain_id, links, says), "says": says}
            row.update(
                script=script,
                links=links[len("link ") :],
                directory=os.path.join(_get_base(), chain_id),
            )
            rows.append(row)
    return rows[::-1]


def _read_state(chain_id, links, says):
    """Return the chain's state in the service's words."""
    for marker, state in _MARKERS:
        if os.path.exists(os.path.join(_get_base(), chain_id, marker)):
            return state
    begun, _, planned = links[len("link ") :].partition(" of ")
    has_ended = begun == planned and not says.startswith(
        ("running", "standby", "waits", "requeued", "suspended")
    )
    return "finished" if has_ended else "active"


def _show(values):
    chain_id = _choose_chain(values["chain"])
    chain = _read_chain(chain_id)
    if values["json"]:
        return _print_json(chain)
    _note(chain["directory"])
    terminal = screen.find_terminal(os.environ)
    cells = [
        [str(link["index"]), str(link["job_id"]), link["says"]]
        for link in chain["links"][-values["links"] :]
    ]
    _print_table(("link", "job", "state"), cells, ("state",), terminal)
    for name, sentence in chain["notes"]:
        screen.print_wrapped("%s: %s" % (name, sentence), terminal)
    return 0


def _read_chain(chain_id):
    """Return what `mirage-link status` says of a chain: its links, and its other lines as notes."""
    links, notes = [], []
    for line in _run_link_program("status", chain_id).splitlines():
        fields = [screen.escape_unprintable(field) for field in line.split("\t")]
        number = fields[0][len("link ") :]
        if len(fields) == 3 and fields[0].startswith("link ") and number.isdigit():
            job = fields[1][len("job ") :]
            links.append(
                {
                    "index": int(number),
                    "job_id": int(job) if job.isdigit() else None,
                    "says": fields[2],
                }
            )
        elif len(fields) == 2:
            notes.append(fields)
    return {
        "chain_id": chain_id,
        "directory": os.path.join(_get_base(), chain_id),
        "links": links,
        "notes": notes,
    }


def _explain(values):
    """Print the plan of the running link, and the newest lines of the chain's log."""
    chain = _read_chain(_choose_chain(values["chain"]))
    entries = _read_log(chain["directory"])[: -values["limit"] - 1 : -1]
    if values["json"]:
        return _print_json([{"at": at, "says": says} for at, says in entries])
    _note(chain["directory"])
    for name, sentence in chain["notes"]:
        screen.print_text("%s: %s\n" % (name, sentence))
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
    chain_id = _choose_chain(values["chain"])
    jobs = [job for job, state, _ in _ask_jobs(chain_id) if state == "PENDING"]
    if not jobs:
        raise CommandError(
            "chain %s has no link that waits, so there is nothing to pause" % (chain_id,)
        )
    _run_slurm("scontrol", "uhold", ",".join(jobs))
    return _report(values, chain_id, "paused", "job %s is held" % (", ".join(jobs),))


def _resume(values):
    chain_id = _choose_chain(values["chain"])
    jobs = _ask_jobs(chain_id)
    held = [job for job, _, reason in jobs if reason.startswith("JobHeld")]
    if held:
        _run_slurm("scontrol", "release", ",".join(held))
        return _report(values, chain_id, "active", "job %s is released" % (", ".join(held),))
    if jobs and not os.path.exists(os.path.join(_get_base(), chain_id, "paused")):
        raise CommandError(
            "chain %s is active already: its job %s is not held" % (chain_id, jobs[-1][0])
        )
    says = _run_link_program("resume", chain_id).strip()
    return _report(values, chain_id, "active", says or "its next link is in the queue")


def _cancel(values):
    chain_id = _choose_chain(values["chain"])
    # The link that waits first: otherwise it would start as the running one ends.
    jobs = [job for job, _, _ in sorted(_ask_jobs(chain_id), key=lambda job: job[1] != "PENDING")]
    _run_link_program("stop", chain_id)
    if jobs:
        _run_slurm("scancel", *jobs)
    names = ", ".join(jobs)
    return _report(
        values,
        chain_id,
        "cancelled",
        "job %s is cancelled" % (names,) if names else "it had no job",
    )


def _report(values, chain_id, state, says):
    if values["json"]:
        return _print_json({"chain_id": chain_id, "state": state, "says": says})
    screen.print_text("chain %s is %s: %s" % (chain_id, state, screen.escape_unprintable(says)))
    return 0


def _choose_chain(words):
    """Return the id of the chain that is meant, as with a service. Raises BadInput."""
    if not words:
        return chain_lookup.pick_chain(_list_rows())
    chain_lookup.check_words(words)
    ids = _list_ids()
    if words in ids:
        return words
    rows = [{"chain_id": chain_id, "running": _read_jobs(chain_id)} for chain_id in ids]
    return chain_lookup.choose_chain(rows, words)


def _list_ids():
    """Return the ids of the user's chains: the directories that have the folder of ends."""
    base = _get_base()
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    return [name for name in names if os.path.isdir(os.path.join(base, name, "ends"))]


def _read_jobs(chain_id):
    """Return the ids of the jobs of a chain's links."""
    folder, jobs = os.path.join(_get_base(), chain_id, "jobs"), []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.isdigit():
            with open(os.path.join(folder, name), errors="replace") as lines:
                job = lines.readline().strip()
            if job.isdigit():
                jobs.append(int(job))
    return sorted(jobs)


def _ask_jobs(chain_id):
    """Return (job, state, reason) of the chain's jobs in the queue, by job. Raises SlurmFailed."""
    jobs = set(map(str, _read_jobs(chain_id)))
    rows = _run_slurm("squeue", "-h", "--all", "-u", chain_lookup.get_own_name(), "-o", "%i %T %r")
    queued = {tuple(row.split(None, 2)) for row in rows.splitlines()}
    return sorted(
        (job for job in queued if len(job) == 3 and job[0] in jobs), key=lambda job: int(job[0])
    )


def _run_slurm(*words):
    # SQUEUE_* would narrow the answer.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    code, out, err = _run(words, environ)
    if code:
        raise SlurmFailed("%s failed: %s" % (words[0], err.strip() or "exit code %d" % (code,)))
    return out


def _run_link_program(*words):
    """Run mirage-link, outside the chain of the calling job if there is one. Raises CommandError."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MIRAGE_DIR", "MIRAGE_LINK")
    }
    environ["MIRAGE_STATE_DIR"] = _get_base()
    code, out, err = _run((os.path.join(get_plugin_folder(), "mirage-link"),) + words, environ)
    if code:
        raise CommandError(err.strip().replace("mirage-link: ", "", 1) or "mirage-link failed")
    sys.stderr.write(err)
    return out


def _run(words, environ):
    """Return the exit code of a program, and what it wrote on standard output and error."""
    try:
        process = subprocess.Popen(  # noqa: S603 - an argument vector
            list(words),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise CommandError("%s cannot be run: %s" % (words[0], error.strerror)) from error
    try:
        out, err = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise SlurmFailed(
            "%s has not ended in %d s: Slurm does not answer" % (words[0], _LIMIT_S)
        ) from None
    return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _get_base():
    return os.environ.get("MIRAGE_STATE_DIR") or os.path.join(
        os.path.expanduser("~"), ".local", "state", "mirage"
    )


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
