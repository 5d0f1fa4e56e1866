"""Builds a job from one record of accounting, whichever fields of sacct the record has.

sacct shows the same fact in several fields. Before an allocation AllocNodes is 0 and ReqNodes is
not; older releases have AllocGRES in the place of AllocTRES; some sites dump only NodeList. The
functions below decide which field counts first. Both the live history and dumps use this module.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from mirage.domain import tres
from mirage.domain.job import (
    MAY_NOT_HAVE_RUN,
    Job,
    JobId,
    JobState,
    has_not_run,
    place_instants,
)
from mirage.domain.timelimit import parse_time_limit
from mirage.domain.tres import SUFFIXES
from mirage.errors import MalformedText
from mirage.slurm.text import hostlist
from mirage.slurm.text.delimited_rows import parse_job_state, parse_text
from mirage.slurm.text.gres import count_gpus, count_requested_gpus

RecordFields = Mapping[str, str]
"""One row, by field name in lower case."""

Readings = Callable[[str, str], tuple[int, ...]]
"""Returns the instants that a cell may mean, given the cell and its field's name: none, one, or the
two of an hour that daylight saving repeats, the earlier first. Raises BadField."""

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
    assumptions: tuple[str, ...] = ()
    """Sentences on the assumptions that were made for values that the row lacks."""
    unread: BadField | None = None
    """The first figure (TRES, GRES) that could not be parsed, and so counts as not known."""


def parse_record(row: RecordFields, job_id: JobId, readings: Readings, *, array: bool) -> Record:
    """Return the record of a row. Raises BadField for a field that cannot be read."""
    assumptions: list[str] = []
    unread: list[BadField] = []
    state = parse_state(row["state"])
    times = _resolve_times(row, readings, state, assumptions)
    allocated = _parse_tres(row, "alloctres", unread)
    requested = _parse_tres(row, "reqtres", unread)
    nodes = _count_nodes(row, allocated, requested, assumptions)
    cpus = (
        _find_count(row, "cpus", _CPUS, assumptions)
        or allocated.get("cpu", 0)
        or _find_count(row, "cpus", ("reqcpus",), assumptions)
        or requested.get("cpu", 0)
    )
    memory_mib = allocated.get("mem", requested.get("mem", 0))
    node_list = find_first_cell(row, "nodelist")
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
        **place_instants(state, times.start, times.end, node_list),
        elapsed_s=times.elapsed_s,
        time_limit_s=_parse_time_limit_s(row),
        nodes=nodes,
        cpus=cpus,
        gpus=_count_job_gpus(row, nodes, unread),
        memory_mib=memory_mib
        or _compute_requested_mib(find_first_cell(row, "reqmem"), nodes, cpus),
        exit_code=find_first_cell(row, "exitcode"),
        node_list=node_list,
        comment=parse_text(row.get("comment", "")),
        array=array,
        submit_line=parse_text(row.get("submitline", "")),
    )
    return Record(job, tuple(dict.fromkeys(assumptions)), next(iter(unread), None))


def find_first_cell(row: RecordFields, *names: str) -> str:
    """Return the first of these fields that holds a value."""
    for name in names:
        cell = row.get(name)
        if cell and (value := cell.strip()).lower() not in _ABSENT:
            return value
    return ""


def parse_state(cell: str) -> JobState:
    """Parse a state such as `CANCELLED by 1003`. A word that Slurm does not use is UNKNOWN."""
    word = cell.strip().upper()
    if not word:
        raise BadField("no state")
    if not _WORD.match(word):
        raise BadField("state is not a word", cell)
    return parse_job_state(word)


def parse_integer(cell: str, field: str) -> int:
    """Parse a whole number, which may also be written `3.0`."""
    if cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST:
        return int(cell)
    number, suffix = _parse_number(cell, field)
    if suffix or not number.is_integer():
        raise BadField(f"{field} is not a number", cell)
    return int(number)


def _parse_number(cell: str, field: str) -> tuple[float, str]:
    match = _COUNT.fullmatch(cell.strip())
    if match is None:
        raise BadField(f"{field} is not a number", cell)
    return float(match[1]), match[2].upper()


def _parse_optional_integer(row: RecordFields, name: str) -> int | None:
    cell = find_first_cell(row, name)
    return parse_integer(cell, name) if cell else None


def _count_nodes(
    row: RecordFields,
    allocated: Mapping[str, int],
    requested: Mapping[str, int],
    assumptions: list[str],
) -> int:
    """Return the number of allocated nodes, otherwise the least number of requested nodes."""
    nodes = (
        _find_count(row, "nodes", _NODES, assumptions)
        or allocated.get("node", 0)
        or _count_listed_nodes(find_first_cell(row, "nodelist"))
        or _find_count(row, "nodes", ("reqnodes",), assumptions)
        or requested.get("node", 0)
    )
    if not nodes:
        assumptions.append(NO_NODES)
    return nodes or 1


def _count_listed_nodes(node_list: str) -> int:
    try:
        return len(set(hostlist.expand_hostlist(node_list))) if node_list else 0
    except MalformedText as error:
        raise BadField("node list does not read", node_list) from error


def _find_count(row: RecordFields, field: str, names: Sequence[str], assumptions: list[str]) -> int:
    """Return the first of these fields that is more than 0. Some are 0 before the allocation."""
    for name in names:
        cell = find_first_cell(row, name)
        # A pending job may ask for a range, `2-4`. It needs the lowest number to start.
        least = cell if cell.startswith("-") else cell.partition("-")[0]
        count = _parse_amount(least, field, assumptions) if cell else 0
        if count:
            return count
    return 0


def _parse_amount(cell: str, field: str, assumptions: list[str]) -> int:
    """Parse an amount: without --noconvert sacct writes 4096 as `4K`."""
    if cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST:
        return int(cell)
    number, suffix = _parse_number(cell, field)
    amount = number * SUFFIXES[suffix]
    if not suffix and not amount.is_integer():
        raise BadField(f"{field} is not a number", cell)
    if "." in cell and suffix:
        assumptions.append(ROUNDED)
    return round(amount)


def _parse_tres(row: RecordFields, name: str, unread: list[BadField]) -> Mapping[str, int]:
    cell = find_first_cell(row, name)
    amounts, unread_names = tres.parse_readable_tres(cell)
    if unread_names:
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
    for name, count_gpus_in in counts:
        cell = find_first_cell(row, name)
        try:
            gpus = count_gpus_in(cell)
        except MalformedText:
            unread.append(BadField("GRES does not read", cell))
            return None
        if gpus != 0:
            return gpus
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
    row: RecordFields, readings: Readings, state: JobState, assumptions: list[str]
) -> _Times:
    submits = readings(row["submit"], "submit")
    if not submits:
        raise BadField("no submit time")
    elapsed_s = _parse_duration(row, "elapsed", "elapsedraw", "elapsed")
    suspended_s = _parse_duration(row, "suspended", "suspended") or 0
    held_s = None if elapsed_s is None else elapsed_s + suspended_s
    starts, ends = readings(row.get("start", ""), "start"), readings(row.get("end", ""), "end")
    consistent = _select_consistent_readings(submits, starts or (None,), ends or (None,), held_s)
    submit, start, end = consistent[0]
    if len(consistent) > 1:
        assumptions.append(TWICE)
    if held_s is not None and state.has_ended:
        start, end = _complete_times(start, end, held_s)
    if start is None and end is not None and elapsed_s is None and "start" not in row:
        _check_missing_start(state, assumptions)
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
        assumptions.append(LONGER)
    return _Times(submit, eligible, start, end, None if elapsed_s == end - start else elapsed_s)


_Instants = tuple[int, int | None, int | None]
"""The instants of submission, start and end."""


def _select_consistent_readings(
    submits: tuple[int, ...],
    starts: tuple[int | None, ...],
    ends: tuple[int | None, ...],
    held_s: int | None,
) -> list[_Instants]:
    """Return the readings whose instants are in order, and that fit best to `held_s`, the seconds
    for which the job held its nodes; the earliest reading first."""
    readings = list(product(submits, starts, ends))
    if len(readings) == 1:
        return readings
    readings = [reading for reading in readings if _is_in_order(*reading, held_s)] or readings
    if held_s is None:
        return readings
    mismatches_s = [_compute_mismatch_s(start, end, held_s) for _, start, end in readings]
    return [
        reading
        for reading, mismatch_s in zip(readings, mismatches_s, strict=True)
        if mismatch_s == min(mismatches_s)
    ]


def _is_in_order(submit: int, start: int | None, end: int | None, held_s: int | None) -> bool:
    if held_s is not None:
        start, end = _complete_times(start, end, held_s)
    begin = submit if start is None else start
    return submit <= begin and (end is None or begin <= end)


def _compute_mismatch_s(start: int | None, end: int | None, held_s: int) -> int:
    return 0 if start is None or end is None else abs(end - start - held_s)


def _resolve_eligible(
    row: RecordFields, readings: Readings, submit: int, start: int | None
) -> int | None:
    """Return when the job became eligible.

    Without a field for it, the instant is the start less sacct's Planned (or Reserved) time; None
    if that time is missing too.
    """
    instants = readings(row.get("eligible", ""), "eligible")
    if instants:
        return next((instant for instant in instants if instant >= submit), instants[0])
    planned_s = _parse_duration(row, "planned", "planned", "reserved")
    return start - planned_s if planned_s and start is not None else None


def _complete_times(
    start: int | None, end: int | None, held_s: int
) -> tuple[int | None, int | None]:
    """Return start and end of a job that has ended, where the row may lack one of the two."""
    if end is None and start is not None:
        return start, start + held_s
    if start is None and end is not None and held_s:
        return end - held_s, end
    return start, end


def _check_missing_start(state: JobState, assumptions: list[str]) -> None:
    """Add the assumption that a job without a start never ran.

    Raises BadField if the job's state says that it ran: the dump then lacks the field Start.
    """
    if state in MAY_NOT_HAVE_RUN:
        assumptions.append(NO_START)
    elif state.has_ended and state is not JobState.COMPLETED:
        raise BadField("no start and no run time in the row: ask sacct for Start or ElapsedRaw")


def _has_never_run(row: RecordFields, state: JobState, start: int | None, end: int | None) -> bool:
    """Return whether the job ended while it waited: `domain.job.has_not_run`."""
    if not state.has_ended or start is None:
        return False
    cell = row.get("nodelist", "").strip()
    node_list = parse_text(cell)
    return has_not_run(state, start, end, node_list, unassigned=bool(cell) and not node_list)


def _parse_duration(row: RecordFields, field: str, *names: str) -> int | None:
    """Parse a span of time: seconds, or sacct's `D-HH:MM:SS`."""
    cell = find_first_cell(row, *names)
    if not cell:
        return None
    if ":" not in cell:
        seconds = parse_integer(cell, field)
        if seconds < 0:
            raise BadField("negative run time", cell)
        return seconds
    try:
        return parse_time_limit(cell.partition(".")[0])
    except MalformedText as error:
        raise BadField(f"{field} is not a span of time", cell) from error
