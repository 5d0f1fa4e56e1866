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
    """Parse the tasks of one row. Their number is None if the list is cut off or has another
    form."""
    if not text.startswith("["):
        return ArrayTasks(array_id)
    terms, _, throttle = text.strip("[]").partition("%")
    limit = int(throttle) if _LIMIT.fullmatch(throttle) else 0
    matches = [_RANGE.fullmatch(term) for term in terms.split(",")]
    counts = [None if match is None else _count_range(match) for match in matches]
    readable_counts = [count for count in counts if count and count > 0]
    is_countable = len(readable_counts) == len(counts) and sum(readable_counts) <= _MOST_TASKS
    return ArrayTasks(array_id, sum(readable_counts) if is_countable else None, limit)


def _count_range(match: re.Match[str]) -> int:
    first, last, step = (int(number) if number else None for number in match.groups())
    return 1 if first is None or last is None else (last - first) // (step or 1) + 1
