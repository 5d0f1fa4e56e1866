"""squeue: the user's own jobs and tasks of arrays that wait or run, known by their comments."""

import re
from dataclasses import dataclass

_ROW = re.compile(r"(?P<job>[1-9]\d*)(?:_(?P<index>\d+))?\|(?P<reason>[^|]*)\|(?P<comment>.*)")


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task of an array, or a job."""

    job: int
    """The array's job id."""
    index: int
    """The place in the array; 0 for a job that is no array."""
    reason: str
    """Why it waits, in Slurm's word."""
    comment: str


def build_argv() -> list[str]:
    """Build the command. It shows waiting tasks of an array one by one."""
    return ["squeue", "--noheader", "--me", "--array", "--format=%i|%r|%k"]


def parse_tasks(stdout: str) -> list[QueuedTask]:
    """Return the tasks. A row that does not read costs that row."""
    rows = (_ROW.fullmatch(line) for line in stdout.splitlines())
    return [
        QueuedTask(int(row["job"]), int(row["index"] or 0), row["reason"], row["comment"])
        for row in rows
        if row is not None
    ]
