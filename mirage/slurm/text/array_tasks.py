"""Reads which tasks of an array one row stands for: `3` or `[1,3-9:2%4]`, after the array's id.

Slurm shows tasks that have no job of their own yet in one row. It cuts a long list off after some
64 characters (SLURM_BITSTR_LEN) and then ends it with `...`.
"""

import re

from mirage.domain.job import ArrayTasks, JobId

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_MOST_TASKS = 4_000_001
"""slurm.conf(5): the largest MaxArraySize."""
_LIMIT = re.compile(r"\d{1,9}", re.ASCII)


def parse_array_tasks(array_id: JobId, text: str) -> ArrayTasks:
    """Parse the tasks. Their number is None where the list is cut off or of another form."""
    if not text.startswith("["):
        return ArrayTasks(array_id)
    listed, _, most = text.strip("[]").partition("%")
    limit = int(most) if _LIMIT.fullmatch(most) else 0
    matches = [_RANGE.fullmatch(term) for term in listed.split(",")]
    counts = [None if match is None else _count_range(match) for match in matches]
    known = [count for count in counts if count and count > 0]
    is_known = len(known) == len(counts) and sum(known) <= _MOST_TASKS
    return ArrayTasks(array_id, sum(known) if is_known else None, limit)


def _count_range(match: re.Match[str]) -> int:
    first, last, step = (int(number) if number else None for number in match.groups())
    return 1 if first is None or last is None else (last - first) // (step or 1) + 1
