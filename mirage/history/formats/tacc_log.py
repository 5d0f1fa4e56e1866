"""TACC's published logs (Mirage, SC'23): a row count, a header, dashes, then tab-separated rows.

They hold no state, partition or GPUs. The state is inferred as in the normalised traces: a run as
long as its limit is TIMEOUT, a non-zero exit is FAILED, a job that did not run is CANCELLED.
"""

from collections.abc import Iterator, Mapping
from datetime import tzinfo

from mirage.domain.job import Job, JobId, JobState, place_instants
from mirage.domain.time_units import MINUTE_S
from mirage.errors import UnknownFormat
from mirage.history.formats.site_clock import SiteClock, get_time_zone
from mirage.history.formats.text_lines import TextLines, parse_lines
from mirage.history.formats.trace_row import Outcome, RowRefused, parse_integer
from mirage.slurm.commands.sacct_record import Record

HOME_ZONE = "America/Chicago"
"""TACC is in Austin, and the logs are in its local time."""

_REQUIRED = ("JobID", "UID", "Start", "Submit", "End", "TimelimitRaw", "ExitCode", "NNodes")


class TaccLog:
    """The header of a log, and its rows."""

    def __init__(self, lines: TextLines, zone: tzinfo | None = None) -> None:
        self._lines = lines
        self.clock = SiteClock(zone or get_time_zone(HOME_ZONE))
        first = next((line for _, line in lines if line.strip()), "").strip()
        self.total = int(first) if first.isdecimal() else None
        header = first if self.total is None else next(lines, (0, ""))[1]
        self._columns = header.split()
        missing = [name for name in _REQUIRED if name not in self._columns]
        if missing:
            raise UnknownFormat(
                f"{lines.path} is no TACC log: its header has no {', '.join(missing)}. "
                "If it comes from sacct, make the dump with -P "
                "(docs/reference/traces.md has the command)"
            )

    def iter_outcomes(self) -> Iterator[tuple[int, Outcome]]:
        rows = 0
        for number, outcome in parse_lines(self._lines, self._parse_line, is_ignored=_is_rule):
            rows += 1
            yield number, outcome
        if self.total is not None and rows < self.total:
            raise self._lines.make_truncated_error(
                f"its first line says {self.total} rows and it has {rows}"
            )

    def _parse_line(self, line: str) -> Record:
        fields = self._split_fields(line)
        submit = self.clock.parse_epoch(fields["Submit"], "submit")
        if submit is None:
            raise RowRefused("no submit time")
        start = self.clock.parse_epoch(fields["Start"], "start", submit)
        end = self.clock.parse_epoch(fields["End"], "end", start)
        limit_s = parse_integer(fields["TimelimitRaw"], "time limit") * MINUTE_S
        state = _infer_state(start, end, limit_s, fields["ExitCode"])
        job = Job(
            job_id=JobId(parse_integer(fields["JobID"], "job id")),
            submit=submit,
            state=state,
            user=fields["UID"],
            name=fields.get("JobName", ""),
            priority=parse_integer(fields["Priority"], "priority")
            if fields.get("Priority")
            else None,
            **place_instants(state, start, end),
            time_limit_s=limit_s,
            nodes=parse_integer(fields["NNodes"], "nodes"),
            exit_code=fields["ExitCode"],
        )
        return Record(job)

    def _split_fields(self, line: str) -> Mapping[str, str]:
        cells = [text.strip() for text in line.split("\t")]
        if len(cells) == len(self._columns) + 1:
            # One row of the published log has a stray field after its UID.
            del cells[self._columns.index("UID") + 1]
        if len(cells) != len(self._columns):
            raise RowRefused(f"not {len(self._columns)} fields")
        return dict(zip(self._columns, cells, strict=True))


def _is_rule(line: str) -> bool:
    return not line.strip("-\t ")


def _infer_state(start: int | None, end: int | None, limit_s: int, exit_code: str) -> JobState:
    if start is None:
        return JobState.PENDING if end is None else JobState.CANCELLED
    if end is None:
        return JobState.RUNNING
    if end == start:
        return JobState.CANCELLED
    if end - start >= limit_s:
        return JobState.TIMEOUT
    return JobState.COMPLETED if exit_code == "0:0" else JobState.FAILED
