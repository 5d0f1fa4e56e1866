"""The Standard Workload Format, version 2 (Feitelson's archive): header comments and 18 fields."""

import re
from collections.abc import Iterator

from mirage.domain.job import Job, JobId, JobState, place_instants
from mirage.errors import InputError
from mirage.history.formats.text_lines import TextLines, parse_lines
from mirage.history.formats.trace_row import Outcome, RowRefused, RowSkipped, parse_integer
from mirage.slurm.commands.sacct_record import NO_NODES, Record

FIELDS = 18
NO_STATUS = "no status in the row: taken as COMPLETED"
_HEADER = re.compile(r";\s*(?P<key>\w+):\s*(?P<value>-?\d+)\b")
_UNKNOWN = -1

# Field numbers of the format, counted from 0.
_JOB, _SUBMIT, _WAIT, _RUN, _PROCS = 0, 1, 2, 3, 4
_PROCS_ASKED, _LIMIT, _STATUS, _USER, _GROUP = 7, 8, 10, 11, 12
_QUEUE = 14

_STATES = {
    _UNKNOWN: JobState.UNKNOWN,
    0: JobState.FAILED,
    1: JobState.COMPLETED,
    5: JobState.CANCELLED,
}
_PARTIAL = frozenset({2, 3, 4})
"""Status values of lines that describe one partial execution of a job. The whole job has its own
line."""


def iter_outcomes(lines: TextLines) -> Iterator[tuple[int, Outcome]]:
    """Yield (line number, record or refusal) for every job of the file."""
    swf = _SwfParser(lines)
    return parse_lines(lines, swf.parse_line, is_ignored=swf.consume_comment)


class _SwfParser:
    def __init__(self, lines: TextLines) -> None:
        self._path = lines.path
        self._header: dict[str, int] = {}

    def consume_comment(self, line: str) -> bool:
        if not line.startswith(";"):
            return False
        if match := _HEADER.match(line):
            self._header.setdefault(match["key"], int(match["value"]))
        return True

    def parse_line(self, line: str) -> Record:
        epoch = self._header.get("UnixStartTime", _UNKNOWN)
        if epoch < 0:
            raise InputError(
                f"{self._path} has no header line '; UnixStartTime: SECONDS': "
                "without it the dates of its jobs are unknown"
            )
        fields = line.split()
        if len(fields) != FIELDS:
            raise RowRefused(f"not {FIELDS} fields")
        numbers = [parse_integer(text, "a field") for text in fields]
        if numbers[_STATUS] in _PARTIAL:
            raise RowSkipped("partial execution")
        if numbers[_SUBMIT] < 0:
            raise RowRefused("no submit time")
        if numbers[_RUN] < _UNKNOWN:
            raise RowRefused("negative run time")
        if numbers[_WAIT] < _UNKNOWN:
            raise RowRefused("start before submit")
        return self._build_record(epoch, numbers)

    def _build_record(self, epoch: int, fields: list[int]) -> Record:
        submit, run_s = epoch + fields[_SUBMIT], fields[_RUN]
        state = _STATES.get(fields[_STATUS], JobState.UNKNOWN)
        assumptions = []
        if fields[_STATUS] == _UNKNOWN and run_s >= 0:
            state = JobState.COMPLETED
            assumptions.append(NO_STATUS)
        left_queue_at = None if fields[_WAIT] == _UNKNOWN else submit + fields[_WAIT]
        start, end, elapsed_s = left_queue_at, None, None
        if state is JobState.CANCELLED and run_s <= 0:
            start, end = None, left_queue_at
        elif run_s != _UNKNOWN:
            end = None if start is None else start + run_s
            elapsed_s = run_s if start is None else None
        processors = max(fields[_PROCS], fields[_PROCS_ASKED], 0)
        if not processors:
            assumptions.append(NO_NODES)
        job = Job(
            job_id=JobId(fields[_JOB]),
            submit=submit,
            state=state,
            user=_format_name(fields[_USER]),
            account=_format_name(fields[_GROUP]),
            partition=_format_name(fields[_QUEUE]),
            **place_instants(state, start, end),
            elapsed_s=elapsed_s,
            time_limit_s=None if fields[_LIMIT] == _UNKNOWN else fields[_LIMIT],
            nodes=-(-processors // self._processors_per_node) or 1,
            cpus=processors,
        )
        return Record(job, tuple(assumptions))

    @property
    def _processors_per_node(self) -> int:
        """The processors of one node, by the header. The format itself counts only processors."""
        nodes, processors = self._header.get("MaxNodes", 0), self._header.get("MaxProcs", 0)
        return max(1, processors // nodes) if nodes > 0 else 1


def _format_name(number: int) -> str:
    return "" if number == _UNKNOWN else str(number)
