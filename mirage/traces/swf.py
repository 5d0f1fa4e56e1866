"""The Standard Workload Format, version 2 (Feitelson's archive): header comments and 18 fields."""

import re
from collections.abc import Iterator

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import InputError
from mirage.traces.row import Outcome, RowRefused, RowSkipped, integer
from mirage.traces.text import Lines, outcomes

FIELDS = 18
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
"""Status of a line that is one execution of a job with a line of its own."""


def read(lines: Lines) -> Iterator[tuple[int, Outcome]]:
    """Every job of the file, by line number."""
    swf = _Swf(lines)
    return outcomes(lines, swf.job, ignored=swf.takes_comment)


class _Swf:
    def __init__(self, lines: Lines) -> None:
        self._path = lines.path
        self._header: dict[str, int] = {}

    def takes_comment(self, line: str) -> bool:
        if not line.startswith(";"):
            return False
        if match := _HEADER.match(line):
            self._header.setdefault(match["key"], int(match["value"]))
        return True

    def job(self, line: str) -> Job:
        epoch = self._header.get("UnixStartTime")
        if epoch is None:
            raise InputError(
                f"{self._path} has no header line '; UnixStartTime: SECONDS': "
                "its times cannot be placed"
            )
        fields = line.split()
        if len(fields) != FIELDS:
            raise RowRefused(f"not {FIELDS} fields")
        number = [integer(text, "a field") for text in fields]
        if number[_STATUS] in _PARTIAL:
            raise RowSkipped("partial execution")
        return self._job(epoch, number)

    def _job(self, epoch: int, number: list[int]) -> Job:
        submit, run = epoch + number[_SUBMIT], number[_RUN]
        if run < _UNKNOWN:
            raise RowRefused("negative run time")
        if number[_WAIT] < _UNKNOWN:
            raise RowRefused("start before submit")
        state = _STATES.get(number[_STATUS], JobState.UNKNOWN)
        left_queue = None if number[_WAIT] == _UNKNOWN else submit + number[_WAIT]
        start, end = left_queue, None
        if state is JobState.CANCELLED and run <= 0:
            start, end = None, left_queue
        elif start is not None and run != _UNKNOWN:
            end = start + run
        processors = max(number[_PROCS], number[_PROCS_ASKED], 0)
        return Job(
            job_id=JobId(number[_JOB]),
            submit=submit,
            state=state,
            user=_name(number[_USER]),
            account=_name(number[_GROUP]),
            partition=_name(number[_QUEUE]),
            start=start,
            end=end,
            time_limit_s=None if number[_LIMIT] == _UNKNOWN else number[_LIMIT],
            nodes=-(-processors // self._processors_per_node),
            cpus=processors,
        )

    @property
    def _processors_per_node(self) -> int:
        """The format counts processors; its header tells how many make a node."""
        nodes, processors = self._header.get("MaxNodes", 0), self._header.get("MaxProcs", 0)
        return max(1, processors // nodes) if nodes > 0 else 1


def _name(number: int) -> str:
    return "" if number == _UNKNOWN else str(number)
