"""sacct: what accounting remembers.

`-p` and not `-P`: the separator at the end of a row shows where it ends, since a submit line may
hold newlines. In a time window sacct leaves out jobs that were never eligible; by id it shows them.
"""

import re
from collections.abc import Iterable, Sequence

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText
from mirage.slurm.hetjob import merge
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

_WANTED: tuple[tuple[str, ...], ...] = (
    ("JobIDRaw",),
    ("JobID",),
    ("User",),
    ("UID",),
    ("Account",),
    ("Partition",),
    ("QOS",),
    ("State",),
    ("Reason",),
    ("Priority",),
    ("Submit",),
    ("Eligible",),
    ("Start",),
    ("End",),
    ("Planned", "Reserved"),  # Reserved until 22.05, an error afterwards; and the reverse
    ("TimelimitRaw",),
    ("NNodes",),
    ("NCPUS",),
    ("ReqTRES",),
    ("AllocTRES",),
    ("ExitCode",),
    ("NodeList",),
    ("JobName",),
    ("Comment",),
    ("SubmitLine",),
)
"""Fields, each under the names that Slurm's releases gave it, the newest first."""

_NEEDED = ("JobIDRaw", "Submit", "State")
_COMPONENT = re.compile(r"\d+\+(?P<offset>\d+)")


def helpformat_argv() -> list[str]:
    return ["sacct", "--helpformat"]


def fields(helpformat: str) -> tuple[str, ...]:
    """The fields to ask for, of those that this sacct says it has."""
    known = set(helpformat.split())
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise MalformedText(f"sacct --helpformat does not list {', '.join(missing)}")
    chosen = (next((name for name in names if name in known), None) for names in _WANTED)
    return tuple(name for name in chosen if name is not None)


def window_argv(
    names: Sequence[str], since: int, until: int, separator: str = SEPARATOR
) -> list[str]:
    """Jobs of all users in any state in [since, until]; `uts` marks epoch seconds."""
    window = [f"--starttime=uts{since}", f"--endtime=uts{until}"]
    return [*_argv(names, separator), "--allusers", *window]


def jobs_argv(
    names: Sequence[str], job_ids: Iterable[JobId], separator: str = SEPARATOR
) -> list[str]:
    """Jobs by id, never-eligible ones included."""
    return [*_argv(names, separator), f"--jobs={','.join(str(i) for i in job_ids)}"]


def _argv(names: Sequence[str], separator: str) -> list[str]:
    # --duplicates: every run of a requeued job, and every job of a number that was used again.
    options = ["--allocations", "--duplicates", "--noconvert", "--parsable"]
    return ["sacct", *options, f"--delimiter={separator}", f"--format={','.join(names)}"]


def parse(answer: str, names: Sequence[str], separator: str = SEPARATOR) -> list[Job]:
    """The records, each (job id, submit) once, het components merged into their leaders."""
    header, *rows = split_rows(answer, names, separator) or [{}]
    if list(header.values()) != list(names):
        raise MalformedText(f"sacct answered without its header: {answer[:80]!r}")
    # A record may be listed twice when it changes while sacct reads; the later one is newer.
    jobs = {(job.job_id, job.submit): (job, leader) for job, leader in map(_job, rows)}
    return merge(jobs.values())


def _job(row: Row) -> tuple[Job, JobId | None]:
    try:
        return _read(row), _leader(row)
    except MalformedText as error:
        raise MalformedText(f"record {row['JobIDRaw'][:20]!r}: {error}") from error


def _read(row: Row) -> Job:
    allocated = tres.parse_tres(row.get("AllocTRES", ""))
    requested = tres.parse_tres(row.get("ReqTRES", ""))
    state = job_state(row["State"])
    start = _start(row, state)
    return Job(
        job_id=JobId(integer(row["JobIDRaw"])),
        submit=integer(row["Submit"]),
        state=state,
        user=text(row.get("User", "")),
        uid=optional_integer(row.get("UID", "")),
        account=text(row.get("Account", "")),
        partition=text(row.get("Partition", "")),
        qos=text(row.get("QOS", "")),
        name=row.get("JobName", ""),
        reason="" if row.get("Reason") == "None" else text(row.get("Reason", "")),
        priority=optional_integer(row.get("Priority", "")),
        eligible=_eligible(row, start),
        start=start,
        end=instant(row.get("End", "")),
        time_limit_s=parse_time_limit(row.get("TimelimitRaw", "")),
        nodes=lowest(row.get("NNodes", "") or "1"),
        cpus=lowest(row.get("NCPUS", "") or "0"),
        gpus=tres.gpus(allocated) or tres.gpus(requested),
        exit_code=row.get("ExitCode", ""),
        node_list=text(row.get("NodeList", "")),
        comment=text(row.get("Comment", "")),
        array="_[" in row.get("JobID", ""),
        submit_line=text(row.get("SubmitLine", "")),
    )


def _start(row: Row, state: JobState) -> int | None:
    """The start of a job that ran; one cancelled while it waited may have its end there."""
    if state.ended and "NodeList" in row and not text(row["NodeList"]):
        return None
    return instant(row.get("Start", ""))


def _eligible(row: Row, start: int | None) -> int | None:
    """When it became eligible; where that is not told, its start less the time it was planned."""
    told = instant(row.get("Eligible", ""))
    if told is not None or start is None:
        return told
    planned_s = parse_time_limit(row.get("Planned", row.get("Reserved", "")))
    return start - planned_s if planned_s else None


def _leader(row: Row) -> JobId | None:
    """sacct names components `<leader>+<offset>`."""
    name = row.get("JobID", "")
    if _COMPONENT.fullmatch(name) is None:
        return None
    return JobId(integer(name.partition("+")[0]))
