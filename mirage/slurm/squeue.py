"""squeue: the whole queue in one call.

`-O` and not `-o`, which has no letter for the eligible time. A field written `Name:<suffix>`,
without a size, is printed in full (22.05.8); without the colon it would be cut at 20 characters.
"""

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText
from mirage.slurm.gres import gpu_count
from mirage.slurm.hetjob import merge
from mirage.slurm.holds import Shown
from mirage.slurm.rows import (
    SEPARATOR,
    Row,
    instant,
    integer,
    job_state,
    lowest,
    optional_integer,
    split_rows,
    text,
)

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
    "Dependency",
    "NodeList",
    "Name",
    "Comment",
)


_ASKED = "ReqNodes"
_HOLD = ("State", "Reason", "PriorityLong")


def argv(separator: str = SEPARATOR) -> list[str]:
    """All jobs of all partitions, hidden ones too, of this cluster alone, in any state."""
    fields = ",".join(f"{name}:{separator}" for name in FIELDS)
    options = ["--noheader", "--all", "--local", "--noconvert", "--states=all"]
    return ["squeue", *options, f"--Format={fields}"]


def asked_nodes_argv(job_id: JobId, separator: str = SEPARATOR) -> list[str]:
    """One job's nodes that it asks for by name."""
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={job_id}"]
    return ["squeue", *options, f"--Format={_ASKED}:{separator}"]


def asked_nodes(answer: str, separator: str = SEPARATOR) -> str:
    """As a host list; empty where any nodes will do. Of a het job, those of all its components."""
    rows = split_rows(answer, (_ASKED,), separator)
    return ",".join(filter(None, (text(row[_ASKED]) for row in rows)))


def hold_argv(job_id: JobId) -> list[str]:
    """What holds one job. No field has a text that users write."""
    fields = ",".join(f"{name}:{SEPARATOR}" for name in _HOLD)
    options = ["--noheader", "--all", "--local", "--states=all", f"--jobs={job_id}"]
    return ["squeue", *options, f"--Format={fields}"]


def hold(answer: str) -> list[Shown]:
    """Of a het job, all its components."""
    return [
        Shown(
            waits=_state(row["State"]).waiting,
            reason=_reason(row["Reason"]),
            priority=optional_integer(row["PriorityLong"]),
        )
        for row in split_rows(answer, _HOLD)
    ]


def parse(answer: str, taken_at: int, separator: str = SEPARATOR) -> Queue:
    return Queue.of(taken_at, jobs(answer, separator))


def jobs(answer: str, separator: str = SEPARATOR) -> list[Job]:
    """The jobs in squeue's order, components of het jobs merged into their leaders."""
    return merge(_job(row) for row in split_rows(answer, FIELDS, separator))


def _job(row: Row) -> tuple[Job, JobId | None]:
    try:
        return _read(row), _leader(row)
    except MalformedText as error:
        raise MalformedText(f"job {row['JobID'][:20]!r}: {error}") from error


def _read(row: Row) -> Job:
    state = _state(row["State"])
    nodes = lowest(row["NumNodes"])
    node_list = text(row["NodeList"])
    return Job(
        job_id=JobId(integer(row["JobID"])),
        submit=integer(row["SubmitTime"]),
        state=state,
        user=text(row["UserName"]),
        uid=integer(row["UserID"]),
        account=text(row["Account"]),
        partition=text(row["Partition"]),
        qos=text(row["QOS"]),
        name=row["Name"],
        reason=_reason(row["Reason"]),
        priority=optional_integer(row["PriorityLong"]),
        eligible=instant(row["EligibleTime"]),
        # Slurm gives a job that ended without ever running its end as its start.
        start=instant(row["StartTime"]) if node_list or not state.ended else None,
        end=None if state.waiting else instant(row["EndTime"]),
        time_limit_s=parse_time_limit(row["TimeLimit"]),
        nodes=nodes,
        cpus=integer(row["NumCPUs"]),
        gpus=_gpus(row, nodes),
        dependency=text(row["Dependency"]),
        node_list=node_list,
        comment=text(row["Comment"]),
        array=_many_tasks(row["ArrayTaskID"]),
    )


def _state(cell: str) -> JobState:
    """A job that squeue calls requeued waits again; in accounting it is the run that ended."""
    state = job_state(cell)
    return JobState.PENDING if state is JobState.REQUEUED else state


def _reason(cell: str) -> str:
    return "" if cell == "None" else text(cell)


def _many_tasks(task_ids: str) -> bool:
    """Whether the row stands for tasks that have no job of their own yet, such as `1-20%4`."""
    return task_ids != _NONE and not task_ids.isdigit()


def _leader(row: Row) -> JobId | None:
    leader = row["HetJobID"]
    return None if leader == _NONE else JobId(integer(leader))


def _gpus(row: Row, nodes: int) -> int:
    """From TRES; from the request where the site does not account GPUs (AccountingStorageTRES)."""
    counted = tres.gpus(tres.parse_tres(text(row["tres-alloc"])))
    per_node = gpu_count(row["tres-per-node"])
    return counted or per_node * nodes or gpu_count(row["tres-per-job"])
