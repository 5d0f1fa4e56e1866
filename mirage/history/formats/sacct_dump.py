"""Dumps of `sacct -P`: a header line, then rows, with `|` or another delimiter between fields.

A dump may have any columns in any order; JobIDRaw (or JobID), Submit and State must be among them.
Times are epoch seconds (SLURM_TIME_FORMAT=%s) or the local time that sacct prints by default.

sacct does not escape a delimiter inside a name, a constraint or a command line. Such a row has too
many fields; neighbouring fields are joined if only one way to do so gives a valid record. A row
that is broken by a newline inside a command line is refused. Of a het job only the leader is read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from itertools import combinations, islice

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import UnknownFormat
from mirage.history.formats.site_clock import SiteClock
from mirage.history.formats.text_lines import TextLines, parse_lines
from mirage.history.formats.trace_row import Outcome, Refusal, RowRefused, RowSkipped, try_parse
from mirage.slurm.commands import sacct_record
from mirage.slurm.commands.sacct_header import NEEDED, find_separator
from mirage.slurm.commands.sacct_record import BadField, Record, RecordFields
from mirage.slurm.text.array_tasks import parse_array_tasks

OTHER_CLUSTER = "of another cluster"

# Columns that may hold a separator, because users write them, or because `|` is an operator there
# (the feature lists of Constraints, Licenses).
_FREE_TEXT_COLUMNS = frozenset(
    (
        *("submitline", "comment", "jobname", "admincomment", "systemcomment", "workdir"),
        *("constraints", "licenses", "extra", "wckey", "container", "stdin", "stdout", "stderr"),
    )
)
_MOST_SPREADS = 1000
"""The most ways to assign the surplus separators of one row to columns that are tried."""
_JOB_ID = re.compile(r"(?P<id>\d{1,18})(?P<task>_\d+|_\[.*\])?(?:\+0)?", re.ASCII)
_COMPONENT = re.compile(r"\d+\+[1-9]\d*", re.ASCII)


class SacctDump:
    """The header of a dump, and its rows."""

    def __init__(
        self, lines: TextLines, zone: tzinfo | None = None, cluster: str | None = None
    ) -> None:
        """`cluster`: only rows of this cluster are read. None: all rows."""
        self._lines = lines
        self.clock = SiteClock(zone)
        self._cluster = cluster
        self.clusters: Counter[str] = Counter()
        """The number of rows by the value of the column Cluster."""
        header = next((line for _, line in lines if line.strip()), "")
        separator = find_separator(header)
        if separator is None:
            raise UnknownFormat(
                f"{lines.path} is no sacct dump: its first line names none of sacct's columns. "
                "Mirage needs the header: make the dump again, and make it without -n (--noheader)"
            )
        self._separator = separator
        names = [name.strip() for name in header.split(separator)]
        self._columns = [name.lower() for name in names]
        missing = [name for name, any_of in NEEDED if any_of.isdisjoint(self._columns)]
        if missing:
            raise UnknownFormat(
                f"{lines.path} is no sacct dump: among its columns ({', '.join(names[:20])}) "
                f"there is no {', '.join(missing)}"
            )

    def iter_outcomes(self) -> Iterator[tuple[int, Outcome]]:
        return parse_lines(self._lines, self._parse_line)

    def _parse_line(self, line: str) -> Record:
        fields = line.split(self._separator)
        extra = len(fields) - len(self._columns)
        if extra < 0:
            raise RowRefused(f"fewer than {len(self._columns)} fields")
        if extra == 0:
            return self._parse_fields(fields)
        return self._join_free_text(fields, extra)

    def _join_free_text(self, fields: list[str], extra: int) -> Record:
        """Return the record if as few free-text columns as possible hold the `extra` separators.

        Raises RowRefused if no way of joining fields gives a record, or several ways differ.
        """
        free_columns = [
            place for place, name in enumerate(self._columns) if name in _FREE_TEXT_COLUMNS
        ]
        records: list[Record] = []
        for column_count in range(1, min(len(free_columns), extra) + 1):
            spreads = list(
                islice(_iter_spreads(free_columns, column_count, extra), _MOST_SPREADS + 1)
            )
            if records or len(spreads) > _MOST_SPREADS:
                break
            records = list(self._iter_fitting_records(fields, spreads))
        if not records:
            raise RowRefused("more fields than columns")
        if len({_strip_free_text(record.job) for record in records}) > 1:
            raise RowRefused("more fields than columns, which fit in several ways")
        return records[0]

    def _iter_fitting_records(
        self, fields: list[str], spreads: Iterable[Mapping[int, int]]
    ) -> Iterator[Record]:
        for spread in spreads:
            outcome = try_parse(self._parse_fields, self._join_fields(fields, spread))
            if isinstance(outcome, Record) and outcome.job.state is not JobState.UNKNOWN:
                yield outcome
            elif isinstance(outcome, Refusal) and outcome.skipped:
                raise RowSkipped(outcome.reason)

    def _join_fields(self, fields: list[str], spread: Mapping[int, int]) -> list[str]:
        """Join the fields of each column. `spread`: the number of separators in a column, by the
        column's place."""
        joined, begin = [], 0
        for place in range(len(self._columns)):
            end = begin + 1 + spread.get(place, 0)
            joined.append(self._separator.join(fields[begin:end]))
            begin = end
        return joined

    def _parse_fields(self, fields: list[str]) -> Record:
        row = dict(zip(self._columns, fields, strict=True))
        job_id, shown_id = _parse_job_id(row)
        self._check_cluster(row)
        record = sacct_record.parse_record(
            row, job_id, self.clock.parse_readings, array="_[" in shown_id
        )
        match = _JOB_ID.fullmatch(shown_id)
        if match is None or match["task"] is None:
            return record
        tasks = parse_array_tasks(JobId(int(match["id"])), match["task"].removeprefix("_"))
        return record._replace(job=replace(record.job, tasks=tasks))

    def _check_cluster(self, row: RecordFields) -> None:
        name = row.get("cluster", "").strip()
        if not name:
            return
        self.clusters[name.lower()] += 1
        if self._cluster is not None and name.lower() != self._cluster.lower():
            raise RowSkipped(OTHER_CLUSTER)


def _iter_spreads(
    free_columns: Sequence[int], column_count: int, extra: int
) -> Iterator[dict[int, int]]:
    """Yield each way to assign `extra` separators to `column_count` of the free-text columns, with
    at least one separator for each. A way is the number of separators by the column's place."""
    for places in combinations(free_columns, column_count):
        for cuts in combinations(range(1, extra), column_count - 1):
            ends = (0, *cuts, extra)
            yield {place: ends[i + 1] - ends[i] for i, place in enumerate(places)}


def _parse_job_id(row: RecordFields) -> tuple[JobId, str]:
    """Parse the id. The second value is the id as it is shown, which names tasks of an array."""
    raw, shown_id = row.get("jobidraw", "").strip(), row.get("jobid", "").strip()
    job_id = raw or shown_id
    if not job_id:
        raise RowRefused("no job id")
    if "." in job_id:
        raise RowSkipped("job step")
    if _COMPONENT.fullmatch(shown_id):
        raise RowSkipped("het component, told by its leader")
    match = _JOB_ID.fullmatch(job_id)
    if match is None:
        raise BadField("job id is not a number", job_id)
    if match["task"] and not match["task"].startswith("_["):
        # 10_3 is not the id that Slurm keeps the task under.
        raise RowRefused("array task without JobIDRaw")
    return JobId(int(match["id"])), shown_id or raw


def _strip_free_text(job: Job) -> Job:
    return replace(job, name="", comment="", submit_line="")
