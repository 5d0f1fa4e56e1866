"""Trace files of four formats, told apart by their content, as batches of jobs with a tally."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Self

from mirage.domain.job import Job
from mirage.errors import InputError, UnknownFormat
from mirage.traces import swf
from mirage.traces.clock import time_zone
from mirage.traces.parquet import ParquetTrace
from mirage.traces.row import Outcome, Refused
from mirage.traces.sacctfile import SEPARATOR, SacctDump
from mirage.traces.tacc import TaccLog
from mirage.traces.text import Lines, head

BATCH_ROWS = 4000


class Format(StrEnum):
    SACCT = "sacct"
    SWF = "swf"
    PARQUET = "parquet"
    TACC = "tacc"


_EXPECTED = {
    Format.SACCT: "the output of sacct -P with its header line",
    Format.SWF: "the Standard Workload Format, with its header comments",
    Format.PARQUET: "parquet with Mirage's trace columns",
    Format.TACC: "a TACC log: row count, header, dashes, tab-separated rows",
}
_PARQUET_MAGIC = b"PAR1"
_DUPLICATE = "same job id and submit time as another row"
_SUBMIT_BITS = 34


@dataclass(slots=True)
class Tally:
    """What became of the rows so far: read = kept + refused + skipped."""

    read: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    """The line (in parquet the row) where a reason was first met."""

    def turn_down(self, refusal: Refused, number: int) -> None:
        (self.skipped if refusal.skipped else self.refused)[refusal.reason] += 1
        self.first.setdefault(refusal.reason, number)


class TraceFile:
    """One pass over an open trace file. `tally` grows while `batches` is drawn from."""

    def __init__(
        self,
        trace_format: Format,
        outcomes: Iterator[tuple[int, Outcome]],
        *,
        source: Lines | ParquetTrace,
        total: int | None = None,
    ) -> None:
        self.format = trace_format
        self.total = total
        """Rows in the file, where the file says so."""
        self.tally = Tally()
        self._outcomes = outcomes
        self._source = source
        self._settled: dict[int, bool] = {}

    @property
    def share(self) -> float:
        """How much has been read, 0 to 1: by rows where their number is known, else by bytes."""
        if self.total:
            return min(1.0, self.tally.read / self.total)
        return self._source.share if isinstance(self._source, Lines) else 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[list[Job]]:
        """The jobs in the file's order, never two of one key in a batch."""
        batch: dict[int, Job] = {}
        for number, outcome in self._outcomes:
            self.tally.read += 1
            if isinstance(outcome, Refused):
                self.tally.turn_down(outcome, number)
                continue
            key = outcome.job_id << _SUBMIT_BITS | outcome.submit
            if self._superseded(key, outcome):
                self.tally.turn_down(Refused(_DUPLICATE), number)
                continue
            if key in batch:
                self.tally.turn_down(Refused(_DUPLICATE), number)
            else:
                self.tally.kept += 1
            batch[key] = outcome
            if len(batch) >= rows:
                yield list(batch.values())
                batch = {}
        if batch:
            yield list(batch.values())

    def _superseded(self, key: int, job: Job) -> bool:
        """Whether an earlier row says as much. Dumps put together from windows repeat jobs: the
        row that has the end counts."""
        before = self._settled.get(key)
        if before is None or (job.state.ended and not before):
            self._settled[key] = job.state.ended
            return False
        return True


def open_trace(
    path: Path, trace_format: Format | None = None, timezone: str | None = None
) -> TraceFile:
    """The trace in a file, its format found from its content unless given.

    `timezone` is that of local times in a sacct dump (default: this host's) or a TACC log
    (default: TACC's). Raises InputError for a file that is empty, cut short, or of no known format.
    """
    zone = time_zone(timezone) if timezone else None
    start = head(path)
    if not start.strip():
        raise InputError(f"{path} is empty: {_expected(trace_format)} expected")
    chosen = trace_format or _sniffed(path, start)
    if chosen is Format.PARQUET:
        if not start.startswith(_PARQUET_MAGIC):
            raise UnknownFormat(f"{path} is not parquet")
        parquet = ParquetTrace(path)
        return TraceFile(chosen, parquet.read(), source=parquet, total=parquet.total)
    _assert_text(path, start)
    lines = Lines(path)
    try:
        return _text_trace(chosen, lines, zone)
    except BaseException:
        lines.close()
        raise


def _text_trace(chosen: Format, lines: Lines, zone: tzinfo | None) -> TraceFile:
    if chosen is Format.SACCT:
        return TraceFile(chosen, SacctDump(lines, zone).read(), source=lines)
    if chosen is Format.SWF:
        return TraceFile(chosen, swf.read(lines), source=lines)
    tacc = TaccLog(lines, zone)
    return TraceFile(chosen, tacc.read(), source=lines, total=tacc.total)


def _sniffed(path: Path, start: bytes) -> Format:
    if start.startswith(_PARQUET_MAGIC):
        return Format.PARQUET
    _assert_text(path, start)
    lines = start.decode("utf-8", errors="replace").lstrip().splitlines()
    first, second = lines[0], lines[1] if len(lines) > 1 else ""
    if first.startswith(";") or _is_swf_row(first):
        return Format.SWF
    if "JobID" in first.split() or (first.strip().isdecimal() and "JobID" in second.split()):
        return Format.TACC
    if SEPARATOR in first:
        return Format.SACCT
    if apart := _other_separator(first):
        raise UnknownFormat(
            f"{path}: its columns stand apart by {apart!r}, and {SEPARATOR!r} is expected: "
            "`sacct -P` without --delimiter"
        )
    raise UnknownFormat(f"{path}: its first line is of no known format; {_expected(None)} expected")


def _other_separator(header: str) -> str | None:
    """Of a sacct dump that was told to use it."""
    for apart in (",", ";", "\t"):
        if {"submit", "state"} <= {name.strip().lower() for name in header.split(apart)}:
            return apart
    return None


def _is_swf_row(line: str) -> bool:
    words = line.split()
    return len(words) == swf.FIELDS and all(
        w.lstrip("-").replace(".", "", 1).isdecimal() for w in words
    )


def _assert_text(path: Path, start: bytes) -> None:
    if b"\0" in start:
        raise UnknownFormat(f"{path} is neither text nor parquet; {_expected(None)} expected")


def _expected(trace_format: Format | None) -> str:
    return _EXPECTED[trace_format] if trace_format else "one of: " + "; ".join(_EXPECTED.values())
