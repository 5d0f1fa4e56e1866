"""One record of accounting, from whichever of sacct's fields it was asked for with.

sacct shows one thing under several names: before an allocation AllocNodes is 0 and ReqNodes is not,
older releases have AllocGRES in the place of AllocTRES, and some sites dump NodeList alone. The
tables below say which field counts first. The live history and dumps are read by this one reader.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from mirage.domain import tres
from mirage.domain.job import MAY_NOT_HAVE_RUN, Job, JobId, JobState, has_not_run
from mirage.domain.timelimit import parse_time_limit
from mirage.domain.tres import SUFFIXES
from mirage.errors import MalformedText
from mirage.slurm.text import hostlist
from mirage.slurm.text.delimited_rows import parse_job_state, parse_text
from mirage.slurm.text.gres import count_gpus, count_requested_gpus

RecordFields = Mapping[str, str]
"""One row, by field name in lower case."""

Readings = Callable[[str, str], tuple[int, ...]]
"""The instants that a cell may mean, by the cell and what it is: none, one, or the two of an hour
that daylight saving repeats, the earlier first. Raises BadField."""

NO_NODES = "no node count in the row: taken as one node"
ROUNDED = "a count that sacct rounded, such as 1.13K: taken as it stands (--noconvert prints all)"
TWICE = "a time in the hour that the clock shows twice: taken as the first"
NO_START = "cancelled, and no start or run time in the row: taken as cancelled while it waited"
LONGER = "ran longer by ElapsedRaw than from Start to End: ElapsedRaw counts"

_NODES = ("allocnodes", "nnodes")
_CPUS = ("alloccpus", "ncpus")
_TOLERANCE_S = 60
_LONGEST = 18
"""Digits of a number that means anything."""
_ABSENT = frozenset({"", "unknown", "none", "none assigned", "n/a", "(null)"})
_WORD = re.compile(r"[A-Z_]+\+?(?: |$)")
_COUNT = re.compile(r"(-?\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)", re.ASCII | re.IGNORECASE)


class BadField(MalformedText):
    """A field that cannot be read."""

    def __init__(self, reason: str, cell: str = "") -> None:
        """`reason` does not name the cell, so that rows can be counted by reason."""
        super().__init__(f"{reason}: {cell[:40]!r}" if cell else reason)
        self.reason = reason


class Record(NamedTuple):
    job: Job
    assumed: tuple[str, ...] = ()
    """The assumptions that were made for values that the row lacks."""
    unread: BadField | None = None
    """The first figure that does not read (TRES, GRES), and is not known."""


def parse_record(row: RecordFields, job_id: JobId, readings: Readings, *, array: bool) -> Record:
    """Return the record of a row. Raises BadField for a field that cannot be read."""
    assumed: list[str] = []
    unread: list[BadField] = []
    state = parse_state(row["state"])
    times = _resolve_times(row, readings, state, assumed)
    allocated = _parse_tres(row, "alloctres", unread)
    requested = _parse_tres(row, "reqtres", unread)
    nodes = _count_nodes(row, allocated, requested, assumed)
    cpus = (
        _find_count(row, "cpus", _CPUS, assumed)
        or allocated.get("cpu", 0)
        or _find_count(row, "cpus", ("reqcpus",), assumed)
        or requested.get("cpu", 0)
    )
    memory_mib = allocated.get("mem", requested.get("mem", 0))
    job = Job(
        job_id=job_id,
        submit=times.submit,
        state=state,
        user=find_first_cell(row, "user"),
        uid=_parse_optional_integer(row, "uid"),
        # Coordinators make accounts under any name.
        account=parse_text(row.get("account", "")),
        partition=find_first_cell(row, "partition"),
        qos=find_first_cell(row, "qos"),
        name=row.get("jobname", ""),
        reason=find_first_cell(row, "reason"),
        priority=_parse_optional_integer(row, "priority"),
        eligible=times.eligible,
        start=times.start,
        end=times.end,
        elapsed_s=times.elapsed_s,
        time_limit_s=_parse_time_limit_s(row),
        nodes=nodes,
        cpus=cpus,
        gpus=_count_job_gpus(row, nodes, unread),
        memory_mib=memory_mib
        or _compute_requested_mib(find_first_cell(row, "reqmem"), nodes, cpus),
        exit_code=find_first_cell(row, "exitcode"),
        node_list=find_first_cell(row, "nodelist"),
        comment=parse_text(row.get("comment", "")),
        array=array,
        submit_line=parse_text(row.get("submitline", "")),
    )
    return Record(job, tuple(dict.fromkeys(assumed)), next(iter(unread), None))


def find_first_cell(row: RecordFields, *names: str) -> str:
    """Return the first of these fields that holds a value."""
    for name in names:
        cell = row.get(name)
        if cell and (found := cell.strip()).lower() not in _ABSENT:
            return found
    return ""


def parse_state(cell: str) -> JobState:
    """Parse a state such as `CANCELLED by 1003`. A word that Slurm does not use is UNKNOWN."""
    word = cell.strip().upper()
    if not word:
        raise BadField("no state")
    if not _WORD.match(word):
        raise BadField("state is not a word", cell)
    return parse_job_state(word)


def parse_integer(cell: str, what: str) -> int:
    """Parse a whole number, which may also be written `3.0`."""
    if cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST:
        return int(cell)
    number, suffix = _parse_number(cell, what)
    if suffix or not number.is_integer():
        raise BadField(f"{what} is not a number", cell)
    return int(number)


def _parse_number(cell: str, what: str) -> tuple[float, str]:
    match = _COUNT.fullmatch(cell.strip())
    if match is None:
        raise BadField(f"{what} is not a number", cell)
    return float(match[1]), match[2].upper()


def _parse_optional_integer(row: RecordFields, name: str) -> int | None:
    cell = find_first_cell(row, name)
    return parse_integer(cell, name) if cell else None


def _count_nodes(
    row: RecordFields,
    allocated: Mapping[str, int],
    requested: Mapping[str, int],
    assumed: list[str],
) -> int:
    """Return the number of allocated nodes, otherwise the least number of requested nodes."""
    found = (
        _find_count(row, "nodes", _NODES, assumed)
        or allocated.get("node", 0)
        or _count_listed_nodes(find_first_cell(row, "nodelist"))
        or _find_count(row, "nodes", ("reqnodes",), assumed)
        or requested.get("node", 0)
    )
    if not found:
        assumed.append(NO_NODES)
    return found or 1


def _count_listed_nodes(node_list: str) -> int:
    try:
        return len(set(hostlist.expand_hostlist(node_list))) if node_list else 0
    except MalformedText as error:
        raise BadField("node list does not read", node_list) from error


def _find_count(row: RecordFields, what: str, names: Sequence[str], assumed: list[str]) -> int:
    """Return the first of these fields that is more than 0; some are 0 before the allocation."""
    for name in names:
        cell = find_first_cell(row, name)
        # A pending job may ask for a range, `2-4`: the least is what it needs to start.
        least = cell if cell.startswith("-") else cell.partition("-")[0]
        found = _parse_amount(least, what, assumed) if cell else 0
        if found:
            return found
    return 0


def _parse_amount(cell: str, what: str, assumed: list[str]) -> int:
    """Parse an amount: without --noconvert sacct writes 4096 as `4K`."""
    if cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST:
        return int(cell)
    number, suffix = _parse_number(cell, what)
    amount = number * SUFFIXES[suffix]
    if not suffix and not amount.is_integer():
        raise BadField(f"{what} is not a number", cell)
    if "." in cell and suffix:
        assumed.append(ROUNDED)
    return round(amount)


def _parse_tres(row: RecordFields, name: str, unread: list[BadField]) -> Mapping[str, int]:
    cell = find_first_cell(row, name)
    amounts, others = tres.parse_readable_tres(cell)
    if others:
        unread.append(BadField("TRES does not read", cell))
    return amounts


def _count_job_gpus(row: RecordFields, nodes: int, unread: list[BadField]) -> int | None:
    """Count GPUs. AllocGRES is for the whole job, ReqGRES for each node (--gres).

    The first field that names GPUs decides; None: it does not read.
    """
    counts: tuple[tuple[str, Callable[[str], int | None]], ...] = (
        ("alloctres", tres.count_job_gpus),
        ("allocgres", count_gpus),
        ("reqtres", tres.count_job_gpus),
        ("reqgres", lambda cell: count_requested_gpus(cell, nodes)),
    )
    for name, count in counts:
        cell = find_first_cell(row, name)
        try:
            found = count(cell)
        except MalformedText:
            unread.append(BadField("GRES does not read", cell))
            return None
        if found != 0:
            return found
    return 0


def _compute_requested_mib(cell: str, nodes: int, cpus: int) -> int:
    """Return ReqMem in sum. Before Slurm 21.08 it ends in `n` (per node) or `c` (per CPU).

    A value that cannot be read counts as none, so that no job is refused for it.
    """
    try:
        mib = tres.parse_tres(f"mem={cell}").get("mem", 0) if cell else 0
    except MalformedText:
        return 0
    return mib * {"n": nodes, "c": cpus}.get(cell[-1:], 1)


def _parse_time_limit_s(row: RecordFields) -> int | None:
    raw = find_first_cell(row, "timelimitraw")
    cell = raw or find_first_cell(row, "timelimit")
    try:
        return parse_time_limit(cell)
    except MalformedText as error:
        raise BadField("time limit does not read", cell) from error


@dataclass(frozen=True, slots=True)
class _Times:
    submit: int
    eligible: int | None
    start: int | None
    end: int | None
    elapsed_s: int | None
    """Seconds that the job ran, if that is not from start to end or there is no end yet."""


def _resolve_times(
    row: RecordFields, readings: Readings, state: JobState, assumed: list[str]
) -> _Times:
    submits = readings(row["submit"], "submit")
    if not submits:
        raise BadField("no submit time")
    elapsed_s = _parse_duration(row, "elapsed", "elapsedraw", "elapsed")
    suspended_s = _parse_duration(row, "suspended", "suspended") or 0
    held_s = None if elapsed_s is None else elapsed_s + suspended_s
    starts, ends = readings(row.get("start", ""), "start"), readings(row.get("end", ""), "end")
    several = _select_consistent_readings(submits, starts or (None,), ends or (None,), held_s)
    submit, start, end = several[0]
    if len(several) > 1:
        assumed.append(TWICE)
    if held_s is not None and state.has_ended:
        start, end = _complete_times(start, end, held_s)
    if start is None and end is not None and elapsed_s is None and "start" not in row:
        _check_missing_start(state, assumed)
    if _has_never_run(row, state, start, end):
        start = None
    eligible = _resolve_eligible(row, readings, submit, start)
    if start is None and end is None and not state.is_waiting:
        return _Times(submit, eligible, None, None, elapsed_s or None)
    if start is None or elapsed_s is None or state.is_waiting:
        return _Times(submit, eligible, start, end, None)
    if end is None or not state.has_ended:
        return _Times(submit, eligible, start, end, elapsed_s)
    if elapsed_s > end - start + _TOLERANCE_S:
        assumed.append(LONGER)
    return _Times(submit, eligible, start, end, None if elapsed_s == end - start else elapsed_s)


_Instants = tuple[int, int | None, int | None]
"""The instants of submission, start and end."""


def _select_consistent_readings(
    submits: tuple[int, ...],
    starts: tuple[int | None, ...],
    ends: tuple[int | None, ...],
    held_s: int | None,
) -> list[_Instants]:
    """Return the readings that agree with each other, and best with the time for which the job held
    its nodes; the earliest first."""
    found = list(product(submits, starts, ends))
    if len(found) == 1:
        return found
    found = [one for one in found if _is_in_order(*one, held_s)] or found
    if held_s is None:
        return found
    apart = [_compute_mismatch_s(start, end, held_s) for _, start, end in found]
    return [one for one, seconds in zip(found, apart, strict=True) if seconds == min(apart)]


def _is_in_order(submit: int, start: int | None, end: int | None, held_s: int | None) -> bool:
    if held_s is not None:
        start, end = _complete_times(start, end, held_s)
    after = submit if start is None else start
    return submit <= after and (end is None or after <= end)


def _compute_mismatch_s(start: int | None, end: int | None, held_s: int) -> int:
    return 0 if start is None or end is None else abs(end - start - held_s)


def _resolve_eligible(
    row: RecordFields, readings: Readings, submit: int, start: int | None
) -> int | None:
    """Return when the job became eligible.

    Where sacct does not tell, it is the start less the time for which the job was planned; None
    where that is not known either.
    """
    told = readings(row.get("eligible", ""), "eligible")
    if told:
        return next((one for one in told if one >= submit), told[0])
    planned_s = _parse_duration(row, "planned", "planned", "reserved")
    return start - planned_s if planned_s and start is not None else None


def _complete_times(
    start: int | None, end: int | None, held_s: int
) -> tuple[int | None, int | None]:
    """Return start and end of a job that ended, one of which is not among the fields."""
    if end is None and start is not None:
        return start, start + held_s
    if start is None and end is not None and held_s:
        return end - held_s, end
    return start, end


def _check_missing_start(state: JobState, assumed: list[str]) -> None:
    """Note that a job without a start is taken as one that never ran.

    Raises BadField if its state says that it ran, since sacct was then not asked for its start.
    """
    if state in MAY_NOT_HAVE_RUN:
        assumed.append(NO_START)
    elif state.has_ended and state is not JobState.COMPLETED:
        raise BadField("no start and no run time in the row: ask sacct for Start or ElapsedRaw")


def _has_never_run(row: RecordFields, state: JobState, start: int | None, end: int | None) -> bool:
    """Return whether the job ended while it waited: `domain.job.has_not_run`."""
    if not state.has_ended or start is None:
        return False
    nodes = row.get("nodelist", "").strip()
    named = parse_text(nodes)
    return has_not_run(state, start, end, named, unassigned=bool(nodes) and not named)


def _parse_duration(row: RecordFields, what: str, *names: str) -> int | None:
    """Parse a span of time: seconds, or sacct's `D-HH:MM:SS`."""
    cell = find_first_cell(row, *names)
    if not cell:
        return None
    if ":" not in cell:
        found = parse_integer(cell, what)
        if found < 0:
            raise BadField("negative run time", cell)
        return found
    try:
        return parse_time_limit(cell.partition(".")[0])
    except MalformedText as error:
        raise BadField(f"{what} is not a span of time", cell) from error
