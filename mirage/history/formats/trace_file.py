"""Reads trace files as batches of jobs, with a tally. The format is detected from the content."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Self

from mirage.domain.job import Job
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats import swf
from mirage.history.formats.parquet import ParquetTrace
from mirage.history.formats.sacct_dump import SacctDump
from mirage.history.formats.site_clock import SiteClock, get_time_zone
from mirage.history.formats.tacc_log import TaccLog
from mirage.history.formats.text_lines import TextLines, read_head
from mirage.history.formats.trace_row import Outcome, Refusal, TraceFormat
from mirage.slurm.commands.sacct_header import find_separator
from mirage.slurm.commands.sacct_record import Record

BATCH_ROWS = 4000


_EXPECTED = {
    TraceFormat.SACCT: "the output of sacct -P with its header line",
    TraceFormat.SWF: "the Standard Workload Format, with its header comments",
    TraceFormat.PARQUET: "parquet with Mirage's trace columns",
    TraceFormat.TACC: "a TACC log: row count, header, dashes, tab-separated rows",
}
_PARQUET_MAGIC = b"PAR1"
_JSON = ("{", "[")
_COLUMNS = "|"
DUPLICATE = "same job id and submit time as another row"
OTHER_USER = "the same job under another user: what a user wrote into a column such as JobName"
"""sacct does not escape a newline inside a text. A user's text can therefore look like a row of its
own."""
_SUBMIT_BITS = 34


@dataclass(slots=True)
class RowTally:
    """The counts of the rows so far: read = kept + refused + skipped."""

    read: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)
    """Counts, by reason, of the rows kept with an assumed value in place of a missing one."""
    first: dict[str, int] = field(default_factory=dict)
    """The line (in parquet the row) where a reason was first met."""

    def count_refusal(self, refusal: Refusal, number: int) -> None:
        (self.skipped if refusal.skipped else self.refused)[refusal.reason] += 1
        self.first.setdefault(refusal.reason, number)

    def count_record(self, record: Record, number: int) -> None:
        self.kept += 1
        for assumption in record.assumptions:
            self.assumed[assumption] += 1
            self.first.setdefault(assumption, number)


class TraceFile:
    """One pass over an open trace file. `tally` counts the rows that `iter_batches` has read."""

    def __init__(
        self,
        trace_format: TraceFormat,
        outcomes: Iterator[tuple[int, Outcome]],
        *,
        source: TextLines | ParquetTrace,
        total: int | None = None,
        clusters: Counter[str] | None = None,
        clock: SiteClock | None = None,
    ) -> None:
        self.format = trace_format
        self.total = total
        """The number of rows in the file; None: the file does not state it."""
        self.tally = RowTally()
        self.clusters: Counter[str] = Counter() if clusters is None else clusters
        """The number of rows so far by the cluster that they name; empty if rows name none."""
        self._clock = clock
        self._outcomes = outcomes
        self._source = source
        self._has_ended: dict[int, bool] = {}
        self._owners: dict[int, int] = {}
        """A hash of the owner of each job so far, by job id. Names would take most of the memory
        for a large file."""

    @property
    def share(self) -> float:
        """The share that has been read, 0 to 1: by rows if their number is known, else by bytes."""
        if self.total:
            return min(1.0, self.tally.read / self.total)
        return self._source.share if isinstance(self._source, TextLines) else 1.0

    @property
    def local_zone(self) -> str | None:
        """The zone in which local times were read; None: the rows so far have no local time."""
        return None if self._clock is None else self._clock.local_zone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def iter_batches(self, rows: int = BATCH_ROWS) -> Iterator[list[Job]]:
        """Yield the jobs in the file's order. No batch has two jobs of one key."""
        batch: dict[int, Job] = {}
        for number, outcome in self._outcomes:
            self.tally.read += 1
            if isinstance(outcome, Refusal):
                self.tally.count_refusal(outcome, number)
                continue
            job = outcome.job
            key = job.job_id << _SUBMIT_BITS | job.submit
            if self._is_of_other_user(key, job):
                self.tally.count_refusal(Refusal(OTHER_USER), number)
                continue
            if self._is_superseded(key, job):
                self.tally.count_refusal(Refusal(DUPLICATE), number)
                continue
            if key in batch:
                self.tally.count_refusal(Refusal(DUPLICATE), number)
            else:
                self.tally.count_record(outcome, number)
            batch[key] = job
            if len(batch) >= rows:
                yield list(batch.values())
                batch = {}
        if batch:
            yield list(batch.values())

    def _is_of_other_user(self, key: int, job: Job) -> bool:
        owner = hash((job.user, job.uid))
        return self._owners.setdefault(key, owner) != owner

    def _is_superseded(self, key: int, job: Job) -> bool:
        """Return whether an earlier row of the job is at least as complete. Dumps that were joined
        from windows repeat jobs, and the row with an end counts."""
        had_ended = self._has_ended.get(key)
        if had_ended is None or (job.state.has_ended and not had_ended):
            self._has_ended[key] = job.state.has_ended
            return False
        return True


def open_trace(
    path: Path,
    trace_format: TraceFormat | None = None,
    timezone: str | None = None,
    *,
    cluster: str | None = None,
) -> TraceFile:
    """Open the trace in a file. The format is detected from the content unless it is given.

    `timezone` is the zone of local times in a sacct dump (default: this host's) or a TACC log
    (default: TACC's). `cluster`: of a dump that names several clusters, only this one's rows are
    read. Raises InputError for a file that is empty, cut short, or of no known format.
    """
    zone = get_time_zone(timezone) if timezone else None
    head = read_head(path)
    if not head.strip():
        raise InputError(f"{path} is empty: {_describe_expected(trace_format)} expected")
    file_format = trace_format or _detect_format(path, head)
    if file_format is TraceFormat.PARQUET:
        if not head.startswith(_PARQUET_MAGIC):
            raise UnknownFormat(f"{path} is not parquet")
        parquet = ParquetTrace(path)
        return TraceFile(file_format, parquet.iter_outcomes(), source=parquet, total=parquet.total)
    _assert_text(path, head)
    lines = TextLines(path)
    try:
        return _open_text_trace(file_format, lines, zone, cluster)
    except BaseException:
        lines.close()
        raise


def _open_text_trace(
    trace_format: TraceFormat, lines: TextLines, zone: tzinfo | None, cluster: str | None
) -> TraceFile:
    if trace_format is TraceFormat.SACCT:
        dump = SacctDump(lines, zone, cluster)
        return TraceFile(
            trace_format,
            dump.iter_outcomes(),
            source=lines,
            clusters=dump.clusters,
            clock=dump.clock,
        )
    if trace_format is TraceFormat.SWF:
        return TraceFile(trace_format, swf.iter_outcomes(lines), source=lines)
    tacc = TaccLog(lines, zone)
    return TraceFile(
        trace_format, tacc.iter_outcomes(), source=lines, total=tacc.total, clock=tacc.clock
    )


def _detect_format(path: Path, head: bytes) -> TraceFormat:
    """Detect the format by marks that only one format has.

    A dump has the names of sacct's fields, SWF its comments or 18 numbers, a TACC log the line of
    dashes below its header.
    """
    if head.startswith(_PARQUET_MAGIC):
        return TraceFormat.PARQUET
    _assert_text(path, head)
    # Not `splitlines`, which takes some delimiters for the end of a line.
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    first, rest = lines[0], lines[1:3]
    if first.startswith(_JSON):
        raise UnknownFormat(f"{path} is JSON; {_describe_expected(None)} expected")
    if _is_tacc(first, rest):
        return TraceFormat.TACC
    try:
        separator = find_separator(first)
    except UnknownFormat as error:
        raise UnknownFormat(f"{path}: {error}") from error
    if separator is not None:
        return TraceFormat.SACCT
    if first.startswith(";") or _is_swf_row(first):
        return TraceFormat.SWF
    if _COLUMNS in first:
        return TraceFormat.SACCT  # its parser's error names the columns that are missing
    raise UnknownFormat(
        f"{path}: its first line is of no known format; {_describe_expected(None)} expected"
    )


def _is_tacc(first: str, rest: Sequence[str]) -> bool:
    if first.strip().isdecimal():
        return bool(rest) and "JobID" in rest[0].split()
    return "JobID" in first.split() and bool(rest) and not rest[0].strip("-\t ")


def _is_swf_row(line: str) -> bool:
    words = line.split()
    return len(words) == swf.FIELDS and all(
        w.lstrip("-").replace(".", "", 1).isdecimal() for w in words
    )


def _assert_text(path: Path, head: bytes) -> None:
    if b"\0" in head.lstrip().partition(b"\n")[0]:
        raise UnknownFormat(
            f"{path} is neither text nor parquet; {_describe_expected(None)} expected"
        )


def _describe_expected(trace_format: TraceFormat | None) -> str:
    return _EXPECTED[trace_format] if trace_format else "one of: " + "; ".join(_EXPECTED.values())
