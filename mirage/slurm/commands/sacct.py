"""sacct: what accounting remembers, asked for in two answers.

sacct takes its separator as an argument, which every user of the host reads in /proc, and users
write names, comments and submit lines. So the first answer has no such text, and says which records
there are; the second only adds texts to these (`mirage.slurm.commands.sacct_texts`).

`-p` and not `-P`: the separator at the end of a row shows where it ends, since a submit line may
hold newlines. In a time window sacct leaves out jobs that were never eligible; by id it shows them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.domain.job import Job, JobId
from mirage.domain.tres import LARGEST
from mirage.errors import MalformedText
from mirage.slurm.commands import sacct_record
from mirage.slurm.text.delimited_rows import (
    SEPARATOR,
    Row,
    check_range,
    name_unread_row,
    parse_instant,
    parse_integer,
    parse_optional_integer,
    split_intact_rows,
)
from mirage.slurm.text.forged_answers import refuse_two_owners
from mirage.slurm.text.hetjob import drop_incomplete_jobs, merge_components
from mirage.slurm.text.unread_rows import Unread, UnreadRow, make_strict_unread

KEY = ("JobIDRaw", "Submit", "UID")
"""The fields that identify one record, with its owner."""

RecordKey = tuple[str, ...]
"""The values of the fields in `KEY`."""

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
    ("ReqGRES",),  # both until 20.02
    ("AllocGRES",),
    ("ExitCode",),
    ("NodeList",),
)
"""Fields, each with the names that releases of Slurm gave it, the newest first."""

_TEXTS = ("Account", "JobName", "Comment", "SubmitLine")
"""Fields that users write. Coordinators may create accounts of any name, also with newlines."""

_NEEDED = (*KEY, "State")
_COMPONENT = re.compile(r"\d{1,18}\+\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class QueryFields:
    """The names of the fields to ask sacct for, in each of its two answers."""

    facts: tuple[str, ...]
    texts: tuple[str, ...]
    """The fields of `KEY`, and the fields that users write."""


def build_helpformat_argv() -> list[str]:
    return ["sacct", "--helpformat"]


def choose_fields(helpformat: str) -> QueryFields:
    """Choose fields among those that this sacct lists.

    Raises MalformedText where it lacks a field that is needed.
    """
    known = set(helpformat.split())
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise MalformedText(f"sacct --helpformat does not list {', '.join(missing)}")
    chosen = (next((name for name in names if name in known), None) for names in _FACTS)
    return QueryFields(
        facts=tuple(name for name in chosen if name is not None),
        texts=(*KEY, *(name for name in _TEXTS if name in known)),
    )


def build_window_options(since: int, until: int) -> list[str]:
    """The options for jobs of all users in any state in [since, until]; `uts`: epoch seconds."""
    return ["--allusers", f"--starttime=uts{since}", f"--endtime=uts{until}"]


def build_id_options(job_ids: Iterable[JobId | str]) -> list[str]:
    """Return the option for jobs by id, with jobs that were never eligible."""
    return [f"--jobs={','.join(str(i) for i in job_ids)}"]


def build_user_options(uid: int) -> list[str]:
    """Return the option that leaves out records of other users."""
    return [f"--uid={uid}"]


def build_argv(names: Sequence[str], which: Sequence[str], separator: str = SEPARATOR) -> list[str]:
    """Build the command. `which` are some of the options above."""
    # --duplicates: every run of a requeued job, and every job of a number that was used again.
    options = ["--allocations", "--duplicates", "--noconvert", "--parsable"]
    form = [f"--delimiter={separator}", f"--format={','.join(names)}"]
    return ["sacct", *options, *form, *which]


def parse_facts(
    answer: str, names: Sequence[str], unread: Unread | None = None
) -> dict[RecordKey, Row]:
    """The first answer: each record once.

    Raises MalformedText for half an answer, ForgedAnswer for a record that is two users' own. Rows
    that do not read are added to `unread`; without it they raise MalformedText too.
    """
    left_out = make_strict_unread() if unread is None else unread
    header, *rows = split_intact_rows(answer, names, left_out, what="record") or [{}]
    if list(header.values()) != list(names):
        raise MalformedText(f"sacct answered without its header: {answer[:80]!r}")
    # A record may be listed twice when it changes while sacct reads; the later one is newer.
    facts = dict(left_out.parse_rows(rows, _attach_key, _name_record))
    refuse_two_owners(
        ((job_id, submit), parse_optional_integer(uid)) for job_id, submit, uid in facts
    )
    return facts


def _attach_key(row: Row) -> tuple[RecordKey, Row]:
    parse_optional_integer(row["UID"])
    return build_key(row), row


def _name_record(row: Row) -> UnreadRow:
    found = name_unread_row("record", row["JobIDRaw"], row["UID"])
    leader = row.get("JobID", "").partition("+")[0]
    return replace(found, job_id=JobId(int(leader))) if _is_component(row) else found


def build_key(row: Row) -> RecordKey:
    return tuple(row[name] for name in KEY)


def build_jobs(
    facts: Mapping[RecordKey, Row], texts: Mapping[RecordKey, Row], unread: Unread | None = None
) -> list[Job]:
    """Both answers as jobs, het components merged into their leaders.

    A record that is not in `texts` has none. `unread` as in `parse_facts`, whose rows count too:
    MalformedText is raised where they are many.
    """
    left_out = make_strict_unread() if unread is None else unread
    rows = (row | texts.get(named, {}) for named, row in facts.items())
    found = left_out.parse_rows(rows, _parse_component, _name_record)
    left_out.check_share(job.uid for job, _ in found)
    jobs = merge_components(drop_incomplete_jobs(found, left_out))
    left_out.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(row: Row) -> tuple[Job, JobId | None]:
    fields = {name.lower(): cell for name, cell in row.items()}
    job_id = JobId(parse_integer(row["JobIDRaw"]))
    found = sacct_record.parse_record(
        fields, job_id, _parse_readings, array="_[" in row.get("JobID", "")
    )
    if found.assumed and "NNodes" in row:
        raise MalformedText(found.assumed[0])
    for amount in (found.job.nodes, found.job.cpus):
        check_range(amount)
    return _drop_large_figures(found.job), _find_leader(row)


def _drop_large_figures(job: Job) -> Job:
    """Return the job without figures that are too large to keep. Their user may have written
    them."""
    gpus = None if job.gpus is None or job.gpus > LARGEST else job.gpus
    return replace(job, gpus=gpus, memory_mib=0 if job.memory_mib > LARGEST else job.memory_mib)


def _parse_readings(cell: str, _what: str) -> tuple[int, ...]:
    """Return the instant of a cell, which is in epoch seconds."""
    found = parse_instant(cell)
    return () if found is None else (found,)


def _is_component(row: Row) -> bool:
    """Return whether the row is a component, which sacct names `<leader>+<offset>`."""
    return _COMPONENT.fullmatch(row.get("JobID", "")) is not None


def _find_leader(row: Row) -> JobId | None:
    return JobId(parse_integer(row["JobID"].partition("+")[0])) if _is_component(row) else None
