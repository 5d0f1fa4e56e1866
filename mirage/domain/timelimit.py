"""Converts Slurm's time limits from text to seconds and back."""

import re
from functools import lru_cache

from mirage.domain.time_units import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import MalformedText

UNLIMITED = 2**31 - 1
"""Seconds of "no time limit", in columns and records alike: an end that is never reached."""

_FORM = re.compile(
    r"(?:(?P<d>\d{1,9})-)?(?P<a>\d{1,11})(?::(?P<b>\d{1,11}))?(?::(?P<c>\d{1,11}))?", re.ASCII
)
_WORDS_WITHOUT_LIMIT = frozenset({"UNLIMITED", "INFINITE"})
_WORDS_UNKNOWN = frozenset({"", "INVALID", "NOT_SET", "UNKNOWN", "N/A", "NONE", "PARTITION_LIMIT"})


@lru_cache(maxsize=4096)
def parse_time_limit(text: str) -> int | None:
    """Parse a time limit, as sbatch takes it and squeue prints it, to seconds.

    Forms: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`
    (sbatch(1), --time). UNLIMITED and INFINITE give `UNLIMITED`. Partition_Limit, INVALID and their
    like give None: the text does not tell the limit. Raises MalformedText for any other text.
    Answers are cached, since thousands of jobs have the same limit.
    """
    word = text.strip().upper()
    if word in _WORDS_WITHOUT_LIMIT:
        return UNLIMITED
    if word in _WORDS_UNKNOWN:
        return None
    match = _FORM.fullmatch(word)
    if match is None:
        raise MalformedText(f"not a time limit: {text!r}")
    days, *numbers = (int(x) if x else 0 for x in match.group("d", "a", "b", "c"))
    if match["d"] is not None or word.count(":") == len("::"):
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, numbers[:2]
    return days * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds


def format_time_limit(seconds: int) -> str:
    """Format seconds as squeue prints them: `D-HH:MM:SS`, without days if there are none."""
    if seconds == UNLIMITED:
        return "UNLIMITED"
    days, rest = divmod(seconds, DAY_S)
    clock = f"{rest // HOUR_S:02}:{rest % HOUR_S // MINUTE_S:02}:{rest % MINUTE_S:02}"
    return f"{days}-{clock}" if days else clock
