"""Answers made of rows and fields, and what stands in one field.

Each field ends in a separator, and each row in it and a newline, which also shows an answer that
was cut short. Users write job names, comments and submit lines, coordinators account names; Slurm
takes any character in them. So a fixed separator parts only fields that none of them writes. Where
such texts are asked for, the separator is random and secret: every user of the host reads the
arguments of a command in /proc, so it never stands there (`squeue`), or what was read with it is
held against an answer without texts (`sacct`).
"""

from collections.abc import Sequence

from mirage.domain.job import JobState
from mirage.errors import MalformedText

SEPARATOR = "\x1f"

Row = dict[str, str]
"""One row, by field name. It travels no further than the parser of its command."""

_LONGEST_NUMBER = 20
"""Digits of 64 bits."""
_NO_TEXT = frozenset({"(null)", "None assigned"})
_NO_INSTANT = frozenset({"", "0", "N/A", "NONE", "UNKNOWN", "NOT_SET", "INVALID", "(NULL)"})


def split_rows(answer: str, fields: Sequence[str], separator: str = SEPARATOR) -> list[Row]:
    """Rows of `fields`; a newline inside a field is part of it."""
    *cells, tail = answer.split(separator)
    if not cells and not tail.strip():
        return []
    if tail != "\n" or len(cells) % len(fields):
        raise MalformedText(f"the answer ends in the middle of a row: {answer[-80:]!r}")
    rows = []
    for i in range(0, len(cells), len(fields)):
        first, *others = cells[i : i + len(fields)]
        if i and not first.startswith("\n"):
            raise MalformedText(f"fields are missing before {first[:80]!r}")
        rows.append(dict(zip(fields, [first.removeprefix("\n"), *others], strict=True)))
    return rows


def text(cell: str) -> str:
    return "" if cell in _NO_TEXT else cell


def integer(cell: str) -> int:
    """A count or an id. Padding is refused: a padded field may have been cut as well."""
    if not (cell.isascii() and cell.isdigit()) or len(cell) > _LONGEST_NUMBER:
        raise MalformedText(f"not a number: {cell[:40]!r}")
    return int(cell)


def optional_integer(cell: str) -> int | None:
    return integer(cell) if text(cell) else None


def lowest(cell: str) -> int:
    """The least of a range such as `2-4`: what the job needs to start."""
    return integer(cell.partition("-")[0])


def instant(cell: str) -> int | None:
    """Epoch seconds, as SLURM_TIME_FORMAT=%s gives them; None for not yet and not known."""
    return None if cell.upper() in _NO_INSTANT else integer(cell)


def job_state(cell: str) -> JobState:
    """The state without what follows it, as in `CANCELLED by 1001`."""
    word = cell.partition(" ")[0].rstrip("+")
    try:
        return JobState(word)
    except ValueError:
        return JobState.UNKNOWN
