"""Dumps of `sacct -P`: a header line, then rows, with `|` or another delimiter between fields.

Any columns in any order; JobIDRaw (or JobID), Submit and State must be among them. Times are epoch
seconds (SLURM_TIME_FORMAT=%s) or the local time that sacct prints by default. sacct does not escape
a delimiter inside a name, a constraint or a command line: such a row is put together where one way
fits. A row broken by a newline inside a command line is refused. Of a het job the leader is taken.
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

# Columns that may hold a separator: users write into them, or `|` is an operator there (the feature
# lists of Constraints, Licenses).
_FREE = frozenset(
    (
        *("submitline", "comment", "jobname", "admincomment", "systemcomment", "workdir"),
        *("constraints", "licenses", "extra", "wckey", "container", "stdin", "stdout", "stderr"),
    )
)
_MOST_WAYS = 1000
"""The ways to share out the separators of one row that are tried."""
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
        """Rows by what the column Cluster says."""
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
        """The record when as few free columns as possible hold the separators that are too many."""
        free = [at for at, name in enumerate(self._columns) if name in _FREE]
        ways: list[Record] = []
        for columns in range(1, min(len(free), extra) + 1):
            spreads = list(islice(_iter_spreads(free, columns, extra), _MOST_WAYS + 1))
            if ways or len(spreads) > _MOST_WAYS:
                break
            ways = list(self._iter_ways(fields, spreads))
        if not ways:
            raise RowRefused("more fields than columns")
        if len({_strip_free_text(way.job) for way in ways}) > 1:
            raise RowRefused("more fields than columns, which fit in several ways")
        return ways[0]

    def _iter_ways(
        self, fields: list[str], spreads: Iterable[Mapping[int, int]]
    ) -> Iterator[Record]:
        for spread in spreads:
            outcome = try_parse(self._parse_fields, self._join_fields(fields, spread))
            if isinstance(outcome, Record) and outcome.job.state is not JobState.UNKNOWN:
                yield outcome
            elif isinstance(outcome, Refusal) and outcome.skipped:
                raise RowSkipped(outcome.reason)

    def _join_fields(self, fields: list[str], spread: Mapping[int, int]) -> list[str]:
        """Join the fields of each column. `spread`: a column's separators, by its place."""
        joined, at = [], 0
        for place in range(len(self._columns)):
            end = at + 1 + spread.get(place, 0)
            joined.append(self._separator.join(fields[at:end]))
            at = end
        return joined

    def _parse_fields(self, fields: list[str]) -> Record:
        row = dict(zip(self._columns, fields, strict=True))
        job_id, told = _parse_job_id(row)
        self._check_cluster(row)
        found = sacct_record.parse_record(
            row, job_id, self.clock.parse_readings, array="_[" in told
        )
        named = _JOB_ID.fullmatch(told)
        if named is None or named["task"] is None:
            return found
        tasks = parse_array_tasks(JobId(int(named["id"])), named["task"].removeprefix("_"))
        return found._replace(job=replace(found.job, tasks=tasks))

    def _check_cluster(self, row: RecordFields) -> None:
        named = row.get("cluster", "").strip()
        if not named:
            return
        self.clusters[named.lower()] += 1
        if self._cluster is not None and named.lower() != self._cluster.lower():
            raise RowSkipped(OTHER_CLUSTER)


def _iter_spreads(free: Sequence[int], columns: int, extra: int) -> Iterator[dict[int, int]]:
    """The ways to share out `extra` separators among that many of the free columns, each of which
    takes at least one."""
    for places in combinations(free, columns):
        for cuts in combinations(range(1, extra), columns - 1):
            ends = (0, *cuts, extra)
            yield {place: ends[i + 1] - ends[i] for i, place in enumerate(places)}


def _parse_job_id(row: RecordFields) -> tuple[JobId, str]:
    """Parse the id. The second value is the id as it is shown, which names tasks of an array."""
    raw, shown = row.get("jobidraw", "").strip(), row.get("jobid", "").strip()
    given = raw or shown
    if not given:
        raise RowRefused("no job id")
    if "." in given:
        raise RowSkipped("job step")
    if _COMPONENT.fullmatch(shown):
        raise RowSkipped("het component, told by its leader")
    match = _JOB_ID.fullmatch(given)
    if match is None:
        raise BadField("job id is not a number", given)
    if match["task"] and not match["task"].startswith("_["):
        # 10_3 is not the id that Slurm keeps the task under.
        raise RowRefused("array task without JobIDRaw")
    return JobId(int(match["id"])), shown or raw


def _strip_free_text(job: Job) -> Job:
    return replace(job, name="", comment="", submit_line="")
