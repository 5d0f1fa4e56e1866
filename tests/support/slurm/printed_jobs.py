"""A job's values, the text that squeue and sacct print of it, and what Mirage reads in that text.

A test gives the values that Slurm knows of a job; `read_queue_job` and `read_record` print them and
read them with the product's own parsers. So no test is about a `Job` that no parser makes:
accounting plans no start, squeue shows no submit line, a job that runs has nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED, format_time_limit
from mirage.slurm.commands import sacct, squeue
from mirage.slurm.commands.sacct_texts import parse_texts
from mirage.slurm.text import delimited_rows
from tests.support.slurm.captured import ALL, SEPARATOR

Row = Mapping[str, str]
"""Cells by field."""

UNHEARD_OF = "UNHEARD_OF"
"""A state of a later release; Mirage reads `JobState.UNKNOWN`."""

_FIELDS = sacct.choose_fields(ALL[-1].answer("sacct-helpformat.txt"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobValues:
    """The values that Slurm knows of one job. A test sets only those that it is about.

    Slurm shows one start and one end of every job. For a waiting job they are backfill's plan. For
    a running job the end is the one by its time limit.
    """

    job_id: int = 1
    submit: int = 0
    state: JobState = JobState.PENDING
    user: str = "alice"
    uid: int | None = 1001
    """None: the user's account is deleted. Only accounting has jobs of such users."""
    account: str = ""
    partition: str = "gpu"
    qos: str = ""
    name: str = "train"
    reason: str = ""
    priority: int = 1
    eligible: int | None = None
    """None: not eligible yet; for a job that runs or ran, eligible since its submission."""
    start: int | None = None
    end: int | None = None
    time_limit_s: int | None = 3600
    nodes: int = 1
    cpus: int | None = None
    """None: one for each node."""
    gpus: int = 0
    exit_code: str = "0:0"
    dependency: str = ""
    node_list: str | None = None
    """None: any nodes for a job that runs or ran, and none for another one."""
    comment: str = ""
    array_tasks: str = ""
    """Such as `1-20%4`, of an array whose tasks have no jobs of their own yet."""
    submit_line: str = ""
    heterogeneous: bool = False
    """Its other components are not printed."""

    @classmethod
    def from_job(cls, job: Job, **changes: Any) -> Self:
        """Return the values of a job that was read, with these changes."""
        has_run = job.state.is_running or job.start is not None
        values: dict[str, Any] = {
            **{name: getattr(job, name) for name in cls.__slots__ if hasattr(job, name)},
            "start": job.planned_start if job.start is None else job.start,
            "end": next((t for t in (job.end, job.expected_end) if t is not None), None),
            "node_list": job.node_list if has_run else None,
            "array_tasks": "1-2" if job.array else "",
            # The simulated cluster shows no priority of a running job; Slurm shows one of each job.
            "priority": 1 if job.priority is None else job.priority,
        }
        if job.cancelled_at is not None:
            values["end"] = job.cancelled_at
        return cls(**{**values, **changes})

    @property
    def has_nodes(self) -> bool:
        """Return whether the job runs, or ran for a second; `node_list` overrides both."""
        if self.node_list is not None:
            return self.node_list != ""
        if self.state.is_waiting or self.start is None:
            return False
        return not self.state.has_ended or self.start != self.end

    @property
    def printed_nodes(self) -> str:
        if self.node_list is not None:
            return self.node_list
        names = "n1" if self.nodes == 1 else f"n[1-{self.nodes}]"
        return names if self.has_nodes else ""

    @property
    def printed_eligible(self) -> int | None:
        return self.submit if self.eligible is None and self.has_nodes else self.eligible

    def build_queue_cells(self) -> dict[str, str]:
        """Build squeue's cells by field, as Mirage asks for them."""
        tres = f"cpu={self._count_cpus()},node={self.nodes},billing={self._count_cpus()}"
        start, end = self.start, self.end
        if self.state.has_ended and not self.has_nodes:
            start = end
        if self.state.is_waiting and start is not None and end is None:
            end = start + max(self.time_limit_s or 0, 0)
        return {
            "JobID": str(self.job_id),
            "ArrayTaskID": self.array_tasks or "N/A",
            "HetJobID": str(self.job_id) if self.heterogeneous else "N/A",
            "UserName": self.user,
            "UserID": "" if self.uid is None else str(self.uid),
            "Account": self.account or "(null)",
            "Partition": self.partition,
            "QOS": self.qos or "(null)",
            "State": _print_state(self.state),
            "Reason": self.reason or "None",
            "PriorityLong": str(self.priority),
            "SubmitTime": str(self.submit),
            "EligibleTime": _print_instant(self.printed_eligible, "N/A"),
            "StartTime": _print_instant(start, "N/A"),
            "EndTime": _print_instant(end, "N/A"),
            "TimeLimit": _print_limit(self.time_limit_s, "INVALID"),
            "NumNodes": str(self.nodes),
            "NumCPUs": str(self._count_cpus()),
            "tres-alloc": f"{tres},gres/gpu={self.gpus}" if self.gpus else tres,
            "tres-per-node": "N/A",
            "tres-per-job": f"gres/gpu:{self.gpus}" if self.gpus else "N/A",
            "tres-per-task": "N/A",
            "NumTasks": str(self.nodes),
            "tres-per-socket": "N/A",
            "Sockets": "*",
            "Dependency": self.dependency or "(null)",
            "NodeList": self.printed_nodes,
            "Name": self.name,
            "Comment": self.comment or "(null)",
        }

    def build_record_cells(self) -> dict[str, str]:
        """Build sacct's cells by field, those of both answers."""
        state, has_run = _print_state(self.state), self.has_nodes
        if self.state is JobState.CANCELLED and self.uid is not None:
            state = f"{state} by {self.uid}"
        start = None if self.state.is_waiting else self.start
        end = self.end if self.state.has_ended else None
        limit = self.time_limit_s
        if limit is not None and limit != UNLIMITED:
            assert limit % 60 == 0, f"Slurm's time limits are whole minutes: {limit} s"
        cpus, gpus = self._count_cpus(), f",gres/gpu={self.gpus}" if self.gpus else ""
        tres = f"billing={cpus},cpu={cpus}{gpus},node={self.nodes}"
        return {
            "JobIDRaw": str(self.job_id),
            "JobID": f"{self.job_id}{self._print_part()}",
            "User": self.user,
            "UID": "" if self.uid is None else str(self.uid),
            "Partition": self.partition,
            "QOS": self.qos,
            "State": state,
            "Reason": self.reason or "None",
            "Priority": str(self.priority),
            "Submit": str(self.submit),
            "Eligible": _print_instant(self.printed_eligible, "Unknown"),
            "Start": _print_instant(start, "None" if self.state.has_ended else "Unknown"),
            "End": _print_instant(end, "Unknown"),
            "Planned": _print_span(
                0 if start is None else start - (self.printed_eligible or start)
            ),
            "TimelimitRaw": "Partition_Limit" if limit is None else _print_minutes(limit),
            "NNodes": str(self.nodes),
            "NCPUS": str(cpus if has_run else 0),
            "ReqTRES": tres,
            "AllocTRES": tres if has_run else "",
            "ExitCode": self.exit_code or "0:0",
            "NodeList": self.printed_nodes or "None assigned",
            "Account": self.account,
            "JobName": self.name,
            "Comment": self.comment,
            "SubmitLine": self.submit_line,
        }

    def _print_part(self) -> str:
        """Print the part of the job id behind the number of an array or a heterogeneous job."""
        if self.array_tasks:
            return f"_[{self.array_tasks}]"
        return "+0" if self.heterogeneous else ""

    def _count_cpus(self) -> int:
        return self.nodes if self.cpus is None else self.cpus


def print_queue(rows: Iterable[Row], separator: str = SEPARATOR) -> str:
    """Print squeue's answer to Mirage, from cells by field."""
    return "".join(_print_row(row, squeue.FIELDS, separator) for row in rows)


def print_records(rows: Iterable[Row], names: Sequence[str], separator: str) -> str:
    """Print one of sacct's answers to Mirage, from cells by field."""
    header = dict(zip(names, names, strict=True))
    return "".join(_print_row(row, names, separator) for row in [header, *rows])


def read_queue_job(**values: Any) -> Job:
    """Read the job of these values (`JobValues`) in what squeue prints of it."""
    return _read_queue_values(JobValues(**values))


def reread_queue_job(job: Job, **changes: Any) -> Job:
    """Read the job in squeue's next answer, in which some values are others."""
    return _read_queue_values(JobValues.from_job(job, **changes))


def read_record(**values: Any) -> Job:
    """Read the record of these values (`JobValues`) in what sacct prints of it."""
    return _read_record_values(JobValues(**values))


def reread_record(job: Job, **changes: Any) -> Job:
    """Read the record in sacct's next answer, in which some values are others."""
    return _read_record_values(JobValues.from_job(job, **changes))


def _read_queue_values(values: JobValues) -> Job:
    (job,) = squeue.parse_jobs(print_queue([values.build_queue_cells()]), SEPARATOR)
    return job


def _read_record_values(values: JobValues) -> Job:
    cells = values.build_record_cells()
    facts = print_records([cells], _FIELDS.facts, delimited_rows.SEPARATOR)
    records = sacct.parse_facts(facts, _FIELDS.facts)
    texts = print_records([cells], _FIELDS.texts, SEPARATOR)
    texts_by_record = parse_texts(texts, _FIELDS.texts, SEPARATOR, records.keys())
    (job,) = sacct.build_jobs(records, texts_by_record.select_settled())
    assert job.job_id == JobId(values.job_id)
    return job


def _print_row(row: Row, names: Sequence[str], separator: str) -> str:
    return "".join(f"{row[name]}{separator}" for name in names) + "\n"


def _print_state(state: JobState) -> str:
    return UNHEARD_OF if state is JobState.UNKNOWN else state.value


def _print_instant(instant: int | None, unknown: str) -> str:
    return unknown if instant is None else str(instant)


def _print_limit(limit_s: int | None, unknown: str) -> str:
    return unknown if limit_s is None else format_time_limit(limit_s)


def _print_minutes(limit_s: int) -> str:
    return "UNLIMITED" if limit_s == UNLIMITED else str(limit_s // 60)


def _print_span(seconds: int) -> str:
    return format_time_limit(seconds) if seconds >= 0 else "INVALID"
