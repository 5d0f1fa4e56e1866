"""sacct: what accounting remembers, asked for in two answers.

sacct takes its separator as an argument, which every user of the host reads in /proc, and users
write names, comments and submit lines. So the first answer has no such text, and says which records
there are; the second only adds texts to these (`mirage.slurm.sacct_texts`).

`-p` and not `-P`: the separator at the end of a row shows where it ends, since a submit line may
hold newlines. In a time window sacct leaves out jobs that were never eligible; by id it shows them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText
from mirage.slurm.forged import refuse_two_owners
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

KEY = ("JobIDRaw", "Submit", "UID")
"""Names one record, whose it is included."""

Key = tuple[str, ...]
"""The cells of `KEY`."""

_FACTS: tuple[tuple[str, ...], ...] = (
    ("JobIDRaw",),
    ("JobID",),
    ("User",),
    ("UID",),
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
)
"""Fields, each under the names that Slurm's releases gave it, the newest first."""

_TEXTS = ("Account", "JobName", "Comment", "SubmitLine")
"""What users write. Accounts are made by coordinators too, under any name, newlines included."""

_NEEDED = (*KEY, "State")
_COMPONENT = re.compile(r"\d+\+(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class Fields:
    """What to ask for, in each of the two answers."""

    facts: tuple[str, ...]
    texts: tuple[str, ...]
    """`KEY`, and what users write."""


def helpformat_argv() -> list[str]:
    return ["sacct", "--helpformat"]


def fields(helpformat: str) -> Fields:
    """Of those that this sacct says it has. Raises MalformedText where it lacks what is needed."""
    known = set(helpformat.split())
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise MalformedText(f"sacct --helpformat does not list {', '.join(missing)}")
    chosen = (next((name for name in names if name in known), None) for names in _FACTS)
    return Fields(
        facts=tuple(name for name in chosen if name is not None),
        texts=(*KEY, *(name for name in _TEXTS if name in known)),
    )


def in_window(since: int, until: int) -> list[str]:
    """The options for jobs of all users in any state in [since, until]; `uts`: epoch seconds."""
    return ["--allusers", f"--starttime=uts{since}", f"--endtime=uts{until}"]


def by_id(job_ids: Iterable[JobId | str]) -> list[str]:
    """The option for jobs by id, never-eligible ones included."""
    return [f"--jobs={','.join(str(i) for i in job_ids)}"]


def of_user(uid: int) -> list[str]:
    """The option that leaves out what is another user's."""
    return [f"--uid={uid}"]


def argv(names: Sequence[str], which: Sequence[str], separator: str = SEPARATOR) -> list[str]:
    """`which`: of the options above."""
    # --duplicates: every run of a requeued job, and every job of a number that was used again.
    options = ["--allocations", "--duplicates", "--noconvert", "--parsable"]
    form = [f"--delimiter={separator}", f"--format={','.join(names)}"]
    return ["sacct", *options, *form, *which]


def parse_facts(answer: str, names: Sequence[str]) -> dict[Key, Row]:
    """The first answer: each record once.

    Raises MalformedText for half an answer, ForgedAnswer for a record that is two users' own.
    """
    header, *rows = split_rows(answer, names) or [{}]
    if list(header.values()) != list(names):
        raise MalformedText(f"sacct answered without its header: {answer[:80]!r}")
    # A record may be listed twice when it changes while sacct reads; the later one is newer.
    facts = {key(row): row for row in rows}
    refuse_two_owners(((job_id, submit), optional_integer(uid)) for job_id, submit, uid in facts)
    return facts


def key(row: Row) -> Key:
    return tuple(row[name] for name in KEY)


def records(facts: Mapping[Key, Row], texts: Mapping[Key, Row]) -> list[Job]:
    """Both answers as jobs, het components merged into their leaders.

    A record that is not in `texts` has none.
    """
    return merge(_job(row | texts.get(named, {})) for named, row in facts.items())


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
        uid=optional_integer(row["UID"]),
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
