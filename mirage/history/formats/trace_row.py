"""One row of a trace file: parses its fields, and checks that they make sense as a job."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from mirage.domain.job import Job, JobState
from mirage.slurm.commands import sacct_record
from mirage.slurm.commands.sacct_record import BadField, Record

CLOCK_TOLERANCE_S = 60
"""A start may lie this many seconds before its submission. The two daemons' clocks may differ, so
such a row is valid."""

LATEST = 2**33
"""Epoch seconds of the year 2242. Anything later is milliseconds or rubbish."""

_LARGEST = 2**53
_TEXTS: tuple[str, ...] = (
    "user",
    "account",
    "partition",
    "qos",
    "name",
    "reason",
    "exit_code",
    "node_list",
)
_TEXTS += ("comment", "submit_line")
R = TypeVar("R")


class TraceFormat(StrEnum):
    SACCT = "sacct"
    SWF = "swf"
    PARQUET = "parquet"
    TACC = "tacc"


class RowRefused(Exception):
    """Raised for a row that is left out. The message is the reason under which the row is counted.
    Never leaves this package."""


class RowSkipped(RowRefused):
    """Raised for a valid row that is not a whole job: a job step or a partial execution."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row is not a job. A parser returns it in place of a record."""

    reason: str
    skipped: bool = False


Outcome = Record | Refusal


def try_parse(parse: Callable[[R], Record], row: R) -> Outcome:
    """Parse a row. Returns the record, or a refusal with the reason why the row is no job."""
    try:
        record = parse(row)
        if record.unread is not None:
            raise record.unread
        job = check_job(record.job)
        return record if job is record.job else Record(job, record.assumptions)
    except BadField as error:
        return Refusal(error.reason)
    except RowSkipped as error:
        return Refusal(str(error), skipped=True)
    except RowRefused as error:
        return Refusal(str(error))


def check_job(job: Job) -> Job:
    """Return the job with clean text. Raises RowRefused if its numbers contradict each other."""
    _check_ranges(job)
    end = job.expected_end if job.end is None else job.end
    if end is not None and job.start is not None and end < job.start:
        raise RowRefused("end before start")
    if job.end is not None and job.end < job.submit - CLOCK_TOLERANCE_S:
        raise RowRefused("end before submit")
    # The start of a requeued job may be that of its previous run.
    if (
        job.start is not None
        and job.state is not JobState.REQUEUED
        and job.start < job.submit - CLOCK_TOLERANCE_S
    ):
        raise RowRefused("start before submit")
    return _strip_nul(job)


def parse_integer(value: str | float, field: str) -> int:
    """Parse a whole number, which may also be written `3.0`."""
    if isinstance(value, str):
        return sacct_record.parse_integer(value, field)
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise RowRefused(f"{field} is not a number") from None


def _check_ranges(job: Job) -> None:
    if not 0 < job.job_id < _LARGEST:
        raise RowRefused("job id is not a positive number")
    for field, instant in (
        ("submit", job.submit),
        ("eligible", job.eligible),
        ("start", job.start or job.planned_start),
        ("end", job.end or job.expected_end),
    ):
        if instant is not None and not 0 <= instant < LATEST:
            raise RowRefused(f"{field} is no time in epoch seconds")
    for field, number in (
        ("time limit", job.time_limit_s or 0),
        ("nodes", job.nodes),
        ("cpus", job.cpus),
        ("gpus", job.gpus or 0),
        ("memory", job.memory_mib),
        ("elapsed", job.elapsed_s or 0),
    ):
        if not 0 <= number < LATEST:
            raise RowRefused(f"{field} is out of range")


def _strip_nul(job: Job) -> Job:
    """Remove NUL characters, which PostgreSQL's text cannot hold."""
    cleaned = {n: t.replace("\0", "") for n in _TEXTS if "\0" in (t := getattr(job, n))}
    return replace(job, **cleaned) if cleaned else job
