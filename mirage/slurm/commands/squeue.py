"""squeue: the whole queue in one call.

The format goes into the environment, which only the same account and root read, and not into the
arguments, which everybody reads: it holds the separator, and users write names and comments.
SQUEUE_FORMAT2 means `-O` and not `-o`, which has no letter for the eligible time. A field written
`Name:<suffix>`, without a size, is printed in full; without the colon it would be cut at 20
characters. Tried on 22.05.8, 24.11.5 and 26.05.5.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText
from mirage.slurm.text.delimited_rows import (
    SEPARATOR,
    Row,
    is_number,
    name_unread_row,
    parse_instant,
    parse_integer,
    parse_job_state,
    parse_lowest,
    parse_name,
    parse_optional_integer,
    parse_text,
    split_intact_rows,
    split_rows,
)
from mirage.slurm.text.forged_answers import iter_job_owners, refuse_two_owners
from mirage.slurm.text.gres import Request, count_job_gpus
from mirage.slurm.text.hetjob import drop_incomplete_jobs, merge_components
from mirage.slurm.text.holds import HoldState
from mirage.slurm.text.unread_rows import Unread, UnreadRow, make_strict_unread

_NONE = "N/A"

FIELDS = (
    "JobID",
    "ArrayTaskID",
    "HetJobID",
    "UserName",
    "UserID",
    "Account",
    "Partition",
    "QOS",
    "State",
    "Reason",
    "PriorityLong",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "NumNodes",
    "NumCPUs",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "tres-per-task",
    "NumTasks",
    "tres-per-socket",
    "Sockets",
    "Dependency",
    "NodeList",
    "Name",
    "Comment",
)


_STANDING = ("JobID", "UserID", "ReqNodes", "State", "Reason", "PriorityLong", "Dependency")
_ASKING = ("JobID", "HetJobID", "ReqNodes")
"""Users write no text of their own into these fields, so the separator needs no secret: slurmctld
prints a dependency as it has parsed it."""


def build_argv(job_ids: Iterable[JobId] = ()) -> list[str]:
    """Build the command for jobs in any state of all partitions, also hidden ones, of this cluster.

    `job_ids`: these alone.
    """
    only = ",".join(map(str, job_ids))
    options = ["--noheader", "--all", "--local", "--noconvert", "--states=all"]
    return ["squeue", *options, *([f"--jobs={only}"] if only else [])]


def build_environment(separator: str) -> dict[str, str]:
    """Build the environment that names the fields. Nobody must be able to guess `separator`."""
    return {"SQUEUE_FORMAT2": ",".join(f"{name}:{separator}" for name in FIELDS)}


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """The facts that are looked up about a job right before it is moved."""

    uid: int
    """The uid of the job's owner."""
    asked_nodes: str
    """The nodes that the job asks for by name, as a host list; empty: any nodes. For a het job, the
    nodes of all its components."""
    shown: tuple[HoldState, ...]
    """The hold of each component; a plain job has one."""
    dependency: str
    """Of a het job, its leader's, as in the queue."""


def build_move_target_argv(job_id: JobId) -> list[str]:
    fields = ",".join(f"{name}:{SEPARATOR}" for name in _STANDING)
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={job_id}"]
    return ["squeue", *options, f"--Format={fields}"]


def parse_move_target(answer: str) -> MoveTarget:
    """Parse the facts before a move. Raises MalformedText for an answer without a row."""
    rows = split_rows(answer, _STANDING)
    if not rows:
        raise MalformedText("the answer has no row of the job")
    uids = [parse_integer(row["UserID"]) for row in rows]
    # The components of a het job have one owner.
    refuse_two_owners((rows[0]["JobID"], uid) for uid in uids)
    asked = (parse_text(row["ReqNodes"]) for row in rows)
    return MoveTarget(
        uid=uids[0],
        asked_nodes=",".join(filter(None, asked)),
        shown=tuple(
            HoldState(
                waits=_parse_state(row["State"]).is_waiting,
                reason=_parse_reason(row["Reason"]),
                priority=parse_optional_integer(row["PriorityLong"]),
            )
            for row in rows
        ),
        dependency=parse_text(_find_first_component(rows)["Dependency"]),
    )


def _find_first_component(rows: Sequence[Row]) -> Row:
    return min(rows, key=lambda row: parse_integer(row["JobID"]))


def build_requested_nodes_argv(job_ids: Iterable[JobId]) -> list[str]:
    fields = ",".join(f"{name}:{SEPARATOR}" for name in _ASKING)
    jobs = ",".join(map(str, job_ids))
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={jobs}"]
    return ["squeue", *options, f"--Format={fields}"]


def parse_requested_nodes(answer: str) -> dict[JobId, str]:
    """Parse the nodes that each job asks for by name, as host lists by job id.

    Jobs that ask for none are left out; a het job has the nodes of all its components.
    """
    found: dict[JobId, str] = {}
    for row in split_rows(answer, _ASKING):
        asked = parse_text(row["ReqNodes"])
        job_id = _find_leader(row) or JobId(parse_integer(row["JobID"]))
        if asked:
            found[job_id] = f"{found[job_id]},{asked}" if job_id in found else asked
    return found


def parse_queue(
    answer: str, taken_at: int, separator: str = SEPARATOR, unread: Unread | None = None
) -> Queue:
    """The queue. Rows that do not read are added to `unread`; without it, or where they are many,
    MalformedText is raised, as for an answer that was cut short."""
    left_out = make_strict_unread() if unread is None else unread
    return Queue.from_jobs(
        taken_at, parse_jobs(answer, separator, left_out), unread=left_out.job_ids
    )


def parse_jobs(answer: str, separator: str = SEPARATOR, unread: Unread | None = None) -> list[Job]:
    """The jobs in squeue's order, components of het jobs merged into their leaders.

    Raises ForgedAnswer where a job is shown as two users' own. `unread` as in `parse_queue`.
    """
    left_out = make_strict_unread() if unread is None else unread
    rows = split_intact_rows(
        answer, FIELDS, left_out, separator=separator, begins=is_number, what="job"
    )
    found = left_out.parse_rows(rows, _parse_component, _name_job)
    refuse_two_owners(chain(iter_job_owners(found), left_out.iter_owners()))
    left_out.check_queue(job.uid for job, _ in found)
    jobs = merge_components(drop_incomplete_jobs(found, left_out))
    left_out.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(row: Row) -> tuple[Job, JobId | None]:
    return _parse_job(row), _find_leader(row)


def _name_job(row: Row) -> UnreadRow:
    """Name an unread row by its job. A component is named by its leader, which is incomplete
    without it."""
    leader = row["HetJobID"]
    found = name_unread_row("job", row["JobID"], row["UserID"])
    return replace(found, job_id=JobId(int(leader))) if is_number(leader) else found


def _parse_job(row: Row) -> Job:
    state = _parse_state(row["State"])
    nodes = parse_lowest(row["NumNodes"])
    node_list = parse_text(row["NodeList"])
    return Job(
        job_id=JobId(parse_integer(row["JobID"])),
        submit=parse_integer(row["SubmitTime"]),
        state=state,
        user=parse_name(row["UserName"]),
        uid=parse_integer(row["UserID"]),
        account=parse_text(row["Account"]),
        partition=parse_text(row["Partition"]),
        qos=parse_text(row["QOS"]),
        name=row["Name"],
        reason=_parse_reason(row["Reason"]),
        priority=parse_optional_integer(row["PriorityLong"]),
        eligible=parse_instant(row["EligibleTime"]),
        # Slurm gives a job that ended without ever running its end as its start.
        start=parse_instant(row["StartTime"]) if node_list or not state.has_ended else None,
        end=None if state.is_waiting else parse_instant(row["EndTime"]),
        time_limit_s=parse_time_limit(row["TimeLimit"]),
        nodes=nodes,
        cpus=parse_integer(row["NumCPUs"]),
        gpus=_count_job_gpus(row, nodes),
        dependency=parse_text(row["Dependency"]),
        node_list=node_list,
        comment=parse_text(row["Comment"]),
        array=_is_array(row["ArrayTaskID"], state),
    )


def _parse_state(cell: str) -> JobState:
    """Parse a state. A job that squeue shows as requeued waits again; in accounting, it is the
    ended run."""
    state = parse_job_state(cell)
    return JobState.PENDING if state is JobState.REQUEUED else state


def _parse_reason(cell: str) -> str:
    return "" if cell == "None" else parse_text(cell)


def _is_array(task_ids: str, state: JobState) -> bool:
    """Return whether the row stands for array tasks without a job of their own yet.

    Such a row shows `1-20%4`, or is the last task's.
    """
    return task_ids != _NONE and (state.is_waiting or not task_ids.isdigit())


def _find_leader(row: Row) -> JobId | None:
    leader = row["HetJobID"]
    return None if leader == _NONE else JobId(parse_integer(leader))


def _count_job_gpus(row: Row, nodes: int) -> int | None:
    tasks, sockets = _parse_count(row["NumTasks"]), _parse_count(row["Sockets"])
    requests = (
        Request(row["tres-per-job"], 1),
        Request(row["tres-per-node"], nodes),
        Request(row["tres-per-task"], tasks),
        Request(row["tres-per-socket"], sockets and sockets * nodes),
    )
    return count_job_gpus(row["tres-alloc"], requests)


def _parse_count(cell: str) -> int | None:
    """Parse a number that may not be set: `*`, or `N/A`."""
    return int(cell) if is_number(cell) else None
