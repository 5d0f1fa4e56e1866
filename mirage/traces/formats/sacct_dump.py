"""Dumps of `sacct -P`: a header line, then rows, with `|` or another delimiter between fields.

Any columns in any order; JobIDRaw (or JobID), Submit and State must be among them. Times are epoch
seconds (SLURM_TIME_FORMAT=%s) or the local time that sacct prints by default. sacct does not escape
a delimiter inside a name or a command line: such a row is put together where one way fits. A row
broken by a newline inside a command line is refused. Of a het job the leader is taken.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import UnknownFormat
from mirage.slurm.commands import sacct_record
from mirage.slurm.commands.sacct_header import NEEDED, find_separator
from mirage.slurm.commands.sacct_record import BadField, Record, RecordFields
from mirage.traces.formats.site_clock import SiteClock
from mirage.traces.formats.text_lines import TextLines, parse_lines
from mirage.traces.formats.trace_row import Outcome, Refusal, RowRefused, RowSkipped, try_parse

OTHER_CLUSTER = "of another cluster"

# Columns a user writes into, and may write a separator into; the likeliest first.
_FREE = ("submitline", "comment", "jobname", "admincomment", "systemcomment", "workdir")
_JOB_ID = re.compile(r"(?P<id>\d{1,18})(?P<task>_\d+|_\[.*\])?(?:\+0)?", re.ASCII)
_COMPONENT = re.compile(r"\d+\+[1-9]\d*", re.ASCII)


class SacctDump:
    """The header of a dump, and its rows."""

    def __init__(
        self, lines: TextLines, zone: tzinfo | None = None, cluster: str | None = None
    ) -> None:
        """`cluster`: only rows of this cluster are read. None: all rows."""
        self._lines = lines
        self._clock = SiteClock(zone)
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
        """The record when one free column holds all the separators that are too many."""
        ways = []
        for at in [self._columns.index(name) for name in _FREE if name in self._columns]:
            whole = self._separator.join(fields[at : at + extra + 1])
            outcome = try_parse(
                self._parse_fields, [*fields[:at], whole, *fields[at + extra + 1 :]]
            )
            if isinstance(outcome, Record) and outcome.job.state is not JobState.UNKNOWN:
                ways.append(outcome)
            elif isinstance(outcome, Refusal) and outcome.skipped:
                raise RowSkipped(outcome.reason)
        if not ways:
            raise RowRefused("more fields than columns")
        if len({_strip_free_text(way.job) for way in ways}) > 1:
            raise RowRefused("more fields than columns, which fit in several ways")
        return ways[0]

    def _parse_fields(self, fields: list[str]) -> Record:
        row = dict(zip(self._columns, fields, strict=True))
        job_id, array = _parse_job_id(row)
        self._check_cluster(row)
        return sacct_record.parse_record(row, job_id, self._clock.parse_readings, array=array)

    def _check_cluster(self, row: RecordFields) -> None:
        named = row.get("cluster", "").strip()
        if not named:
            return
        self.clusters[named.lower()] += 1
        if self._cluster is not None and named.lower() != self._cluster.lower():
            raise RowSkipped(OTHER_CLUSTER)


def _parse_job_id(row: RecordFields) -> tuple[JobId, bool]:
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
    return JobId(int(match["id"])), "_[" in (shown or raw)


def _strip_free_text(job: Job) -> Job:
    return replace(job, name="", comment="", submit_line="")
