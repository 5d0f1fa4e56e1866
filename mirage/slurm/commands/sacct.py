"""sacct: the records of accounting, from two answers.

sacct takes its separator only as an argument, which every user of the host can read in /proc. Users
write names, comments and submit lines, so they can write the separator into their own texts. So the
first answer has no such text, and decides which records exist. The second answer only adds texts to
these records (`mirage.slurm.commands.sacct_texts`). Never take a record from the second answer.

The option is `-p` and not `-P`, because a submit line may hold newlines: the separator at the end
of a row shows where the row ends. In a time window sacct leaves out jobs that were never eligible;
asked for ids, it shows them.
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
    """Choose the fields to ask for among those that this sacct lists.

    Raises MalformedText if this sacct lacks a field that is needed.
    """
    listed = set(helpformat.split())
    missing = [name for name in _NEEDED if name not in listed]
    if missing:
        raise MalformedText(f"sacct --helpformat does not list {', '.join(missing)}")
    chosen_names = (next((name for name in names if name in listed), None) for names in _FACTS)
    return QueryFields(
        facts=tuple(name for name in chosen_names if name is not None),
        texts=(*KEY, *(name for name in _TEXTS if name in listed)),
    )


def build_window_options(since: int, until: int) -> list[str]:
    """Build the options for jobs of all users in any state in [since, until], in epoch seconds
    (`uts`)."""
    return ["--allusers", f"--starttime=uts{since}", f"--endtime=uts{until}"]


def build_id_options(job_ids: Iterable[JobId | str]) -> list[str]:
    """Return the option for jobs by id, with jobs that were never eligible."""
    return [f"--jobs={','.join(str(i) for i in job_ids)}"]


def build_user_options(uid: int) -> list[str]:
    """Return the option that leaves out records of other users."""
    return [f"--uid={uid}"]


def build_argv(
    names: Sequence[str], selection: Sequence[str], separator: str = SEPARATOR
) -> list[str]:
    """Build the command. `selection`: the options of one or more of the functions above."""
    # --duplicates: every run of a requeued job, and every job of a number that was used again.
    options = ["--allocations", "--duplicates", "--noconvert", "--parsable"]
    form = [f"--delimiter={separator}", f"--format={','.join(names)}"]
    return ["sacct", *options, *form, *selection]


def parse_facts(
    answer: str, names: Sequence[str], unread: Unread | None = None
) -> dict[RecordKey, Row]:
    """Parse the first answer into rows, each record once.

    Raises MalformedText for an answer that was cut short, ForgedAnswer for a record with two
    owners. Rows that cannot be parsed are added to `unread`; without `unread` they raise
    MalformedText too.
    """
    rejects = make_strict_unread() if unread is None else unread
    header, *rows = split_intact_rows(answer, names, rejects, row_kind="record") or [{}]
    if list(header.values()) != list(names):
        raise MalformedText(f"sacct answered without its header: {answer[:80]!r}")
    # A record may be listed twice when it changes while sacct reads; the later one is newer.
    facts = dict(rejects.parse_rows(rows, _attach_key, _name_record))
    refuse_two_owners(
        ((job_id, submit), parse_optional_integer(uid)) for job_id, submit, uid in facts
    )
    return facts


def _attach_key(row: Row) -> tuple[RecordKey, Row]:
    parse_optional_integer(row["UID"])
    return build_key(row), row


def _name_record(row: Row) -> UnreadRow:
    unread_row = name_unread_row("record", row["JobIDRaw"], row["UID"])
    leader = row.get("JobID", "").partition("+")[0]
    return replace(unread_row, job_id=JobId(int(leader))) if _is_component(row) else unread_row


def build_key(row: Row) -> RecordKey:
    return tuple(row[name] for name in KEY)


def build_jobs(
    facts: Mapping[RecordKey, Row], texts: Mapping[RecordKey, Row], unread: Unread | None = None
) -> list[Job]:
    """Build jobs from both answers, with het components merged into their leaders.

    A record that is not in `texts` gets no texts. `unread` is as in `parse_facts`, and may hold
    that function's rows already. Raises MalformedText if `unread` has too many rows.
    """
    rejects = make_strict_unread() if unread is None else unread
    rows = (row | texts.get(key, {}) for key, row in facts.items())
    components = rejects.parse_rows(rows, _parse_component, _name_record)
    rejects.check_share(job.uid for job, _ in components)
    jobs = merge_components(drop_incomplete_jobs(components, rejects))
    rejects.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(row: Row) -> tuple[Job, JobId | None]:
    fields = {name.lower(): cell for name, cell in row.items()}
    job_id = JobId(parse_integer(row["JobIDRaw"]))
    record = sacct_record.parse_record(
        fields, job_id, _parse_readings, array="_[" in row.get("JobID", "")
    )
    if record.assumptions and "NNodes" in row:
        raise MalformedText(record.assumptions[0])
    for amount in (record.job.nodes, record.job.cpus):
        check_range(amount)
    return _drop_large_figures(record.job), _find_leader(row)


def _drop_large_figures(job: Job) -> Job:
    """Return the job without figures that are too large to keep. Their user may have written
    them."""
    gpus = None if job.gpus is None or job.gpus > LARGEST else job.gpus
    return replace(job, gpus=gpus, memory_mib=0 if job.memory_mib > LARGEST else job.memory_mib)


def _parse_readings(cell: str, _field: str) -> tuple[int, ...]:
    """Return the instant of a cell, which is in epoch seconds."""
    instant = parse_instant(cell)
    return () if instant is None else (instant,)


def _is_component(row: Row) -> bool:
    """Return whether the row is a component, which sacct names `<leader>+<offset>`."""
    return _COMPONENT.fullmatch(row.get("JobID", "")) is not None


def _find_leader(row: Row) -> JobId | None:
    return JobId(parse_integer(row["JobID"].partition("+")[0])) if _is_component(row) else None
