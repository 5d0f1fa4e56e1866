"""squeue: the whole queue in one call.

The format holds the separator, which must stay secret: users write names and comments. So the
format is passed in the environment, which only the same account and root can read. Never pass it as
an argument, which every user can read.

The variable SQUEUE_FORMAT2 stands for `-O`; `-o` has no letter for the eligible time. A field
written `Name:<suffix>`, without a size, is printed in full; without the colon it would be cut at 20
characters. Tried on 22.05.8, 24.11.5 and 26.05.5.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mirage.domain.job import Job, JobId, JobState, place_instants
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

_NOT_SET = "N/A"

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


_MOVE_TARGET_FIELDS = (
    "JobID",
    "UserID",
    "ReqNodes",
    "State",
    "Reason",
    "PriorityLong",
    "Dependency",
)
_REQUESTED_NODES_FIELDS = ("JobID", "HetJobID", "ReqNodes")
"""Users write no free text into these fields, so the separator need not be secret. slurmctld prints
a dependency as it has parsed it."""


def build_argv(job_ids: Iterable[JobId] = ()) -> list[str]:
    """Build the command for jobs in any state, in all partitions of this cluster, also hidden ones.

    `job_ids`: only these jobs; empty: all jobs.
    """
    selection = ",".join(map(str, job_ids))
    options = ["--noheader", "--all", "--local", "--noconvert", "--states=all"]
    return ["squeue", *options, *([f"--jobs={selection}"] if selection else [])]


def build_environment(separator: str) -> dict[str, str]:
    """Build the environment that names the fields. Nobody must be able to guess `separator`."""
    return {"SQUEUE_FORMAT2": ",".join(f"{name}:{separator}" for name in FIELDS)}


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """The facts about a job that are queried right before Mirage moves it."""

    uid: int
    """The uid of the job's owner."""
    requested_nodes: str
    """The nodes that the job asks for by name, as a host list; empty: any nodes. For a het job, the
    nodes of all its components."""
    components: tuple[HoldState, ...]
    """The hold of each component of a het job; one element for a plain job."""
    dependency: str
    """The job's dependency; for a het job its leader's, as in the queue."""


def build_move_target_argv(job_id: JobId) -> list[str]:
    fields = ",".join(f"{name}:{SEPARATOR}" for name in _MOVE_TARGET_FIELDS)
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={job_id}"]
    return ["squeue", *options, f"--Format={fields}"]


def parse_move_target(answer: str) -> MoveTarget:
    """Parse the facts before a move. Raises MalformedText for an answer without a row."""
    rows = split_rows(answer, _MOVE_TARGET_FIELDS)
    if not rows:
        raise MalformedText("the answer has no row of the job")
    uids = [parse_integer(row["UserID"]) for row in rows]
    # The components of a het job have one owner.
    refuse_two_owners((rows[0]["JobID"], uid) for uid in uids)
    node_lists = (parse_text(row["ReqNodes"]) for row in rows)
    return MoveTarget(
        uid=uids[0],
        requested_nodes=",".join(filter(None, node_lists)),
        components=tuple(
            HoldState(
                is_waiting=_parse_state(row["State"]).is_waiting,
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
    fields = ",".join(f"{name}:{SEPARATOR}" for name in _REQUESTED_NODES_FIELDS)
    jobs = ",".join(map(str, job_ids))
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={jobs}"]
    return ["squeue", *options, f"--Format={fields}"]


def parse_requested_nodes(answer: str) -> dict[JobId, str]:
    """Parse the nodes that each job asks for by name, as host lists by job id.

    Jobs that ask for none are left out; a het job has the nodes of all its components.
    """
    nodes_by_job: dict[JobId, str] = {}
    for row in split_rows(answer, _REQUESTED_NODES_FIELDS):
        node_list = parse_text(row["ReqNodes"])
        job_id = _find_leader(row) or JobId(parse_integer(row["JobID"]))
        if node_list:
            nodes_by_job[job_id] = (
                f"{nodes_by_job[job_id]},{node_list}" if job_id in nodes_by_job else node_list
            )
    return nodes_by_job


def parse_queue(
    answer: str, taken_at: int, separator: str = SEPARATOR, unread: Unread | None = None
) -> Queue:
    """Parse the queue. Rows that cannot be parsed are added to `unread`.

    Raises MalformedText if there is no `unread`, if such rows are too many, and for an answer that
    was cut short.
    """
    rejects = make_strict_unread() if unread is None else unread
    return Queue.from_jobs(taken_at, parse_jobs(answer, separator, rejects), unread=rejects.job_ids)


def parse_jobs(answer: str, separator: str = SEPARATOR, unread: Unread | None = None) -> list[Job]:
    """Parse the jobs, in squeue's order, with components of het jobs merged into their leaders.

    Raises ForgedAnswer if the answer gives one job two owners. `unread` as in `parse_queue`.
    """
    rejects = make_strict_unread() if unread is None else unread
    rows = split_intact_rows(
        answer, FIELDS, rejects, separator=separator, is_row_start=is_number, row_kind="job"
    )
    components = rejects.parse_rows(rows, _parse_component, _name_job)
    refuse_two_owners(chain(iter_job_owners(components), rejects.iter_owners()))
    rejects.check_queue(job.uid for job, _ in components)
    jobs = merge_components(drop_incomplete_jobs(components, rejects))
    rejects.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(row: Row) -> tuple[Job, JobId | None]:
    return _parse_job(row), _find_leader(row)


def _name_job(row: Row) -> UnreadRow:
    """Name an unread row by its job. A component is named by its leader, since the leader's job is
    incomplete without it."""
    leader = row["HetJobID"]
    unread_row = name_unread_row("job", row["JobID"], row["UserID"])
    return replace(unread_row, job_id=JobId(int(leader))) if is_number(leader) else unread_row


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
        **place_instants(
            state,
            # For a job that ended without having run, Slurm shows its end as its start.
            parse_instant(row["StartTime"]) if node_list or not state.has_ended else None,
            None if state.is_waiting else parse_instant(row["EndTime"]),
            node_list,
        ),
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
    """Parse a state. REQUEUED in squeue is a job that waits again; only in accounting does the word
    mean a run that has ended."""
    state = parse_job_state(cell)
    return JobState.PENDING if state is JobState.REQUEUED else state


def _parse_reason(cell: str) -> str:
    return "" if cell == "None" else parse_text(cell)


def _is_array(task_ids: str, state: JobState) -> bool:
    """Return whether the row stands for array tasks without a job of their own yet.

    Such a row shows `1-20%4`, or is the last task's.
    """
    return task_ids != _NOT_SET and (state.is_waiting or not task_ids.isdigit())


def _find_leader(row: Row) -> JobId | None:
    leader = row["HetJobID"]
    return None if leader == _NOT_SET else JobId(parse_integer(leader))


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
