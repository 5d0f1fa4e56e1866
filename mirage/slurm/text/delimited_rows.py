"""Answers made of rows and fields, and parsers of single fields.

Each field ends in a separator, and each row in a separator and a newline. So an answer that was cut
short can be seen. Users write job names, comments and submit lines, and coordinators write account
names. Slurm takes any character in these texts, also a separator.

A fixed separator is therefore used only for fields that nobody writes freely. For the other fields
the separator is random and secret. Every user of the host can read a command's arguments in /proc.
So the secret separator of `squeue` is passed in the environment. sacct takes it only as an
argument: there the answer is compared with an answer without texts (`commands.sacct`).
"""

from collections.abc import Callable, Sequence

from mirage.domain.job import JobId, JobState
from mirage.domain.tres import LARGEST
from mirage.errors import MalformedText
from mirage.slurm.text.unread_rows import Unread, UnreadRow, make_strict_unread, quote_cell

SEPARATOR = "\x1f"

Row = dict[str, str]
"""One row, by field name. Only the parser of its command uses it."""

_LONGEST_NUMBER = 20
"""The digits of a 64-bit number."""
_AFTER_TEXTS = 3
"""After a user's text, its row ends within this many fields: two such fields, and one too many."""
_NOT_UTF8 = "\ufffd"
"""The character that stands for a byte that is not UTF-8."""
_NO_TEXT = frozenset({"(null)", "None assigned"})
_NO_INSTANT = frozenset({"", "0", "N/A", "NONE", "UNKNOWN", "NOT_SET", "INVALID", "(NULL)"})


def split_rows(answer: str, fields: Sequence[str]) -> list[Row]:
    """Split an answer into rows of `fields`. A newline inside a field is part of the field.

    Raises MalformedText if a row has fewer or more fields.
    """
    return split_intact_rows(answer, fields, make_strict_unread())


def split_intact_rows(
    answer: str,
    fields: Sequence[str],
    unread: Unread,
    *,
    separator: str = SEPARATOR,
    is_row_start: Callable[[str], bool] | None = None,
    row_kind: str = "row",
) -> list[Row]:
    """Split like `split_rows`, but move rows with fewer or more fields to `unread`.

    `is_row_start`: returns whether a cell can be the first of a row. It is needed where users'
    texts are the last fields of a row; None: the rows have no such texts. `row_kind`: the noun for
    a row in messages. Raises MalformedText for an answer that was cut short.
    """
    cells = answer.split(separator)
    end = len(cells) - 1
    if not end and not answer.strip():
        return []
    if cells[end] != "\n":
        raise _make_cut_error(answer)
    # With this newline, every row begins with one and is followed by one.
    cells[0] = f"\n{cells[0]}"
    rows, at, width = [], 0, len(fields)
    while at < end:
        after = at + width
        if after <= end and cells[after].startswith("\n"):
            rows.append(dict(zip(fields, [cells[at][1:], *cells[at + 1 : after]], strict=True)))
            at = after
            continue
        after = _find_next_row(cells, at + 1, width, is_row_start)
        if after == end and end - at < width:
            raise _make_cut_error(answer)
        unread.add_row(
            name_unread_row(row_kind, cells[at][1:]),
            f"fields are missing or too many: {after - at} of {width}",
        )
        at = after
    return rows


def _find_next_row(
    cells: Sequence[str], at: int, width: int, is_row_start: Callable[[str], bool] | None
) -> int:
    """Return the place in `cells` of the next row, after a row with too few or too many fields.

    A cell that begins with a newline is only a candidate: users' texts may begin with a newline
    too. Returns the place after the last row if there is no next row.
    """
    end = len(cells) - 1
    for i in range(at, end):
        if not cells[i].startswith("\n"):
            continue
        if is_row_start is None:
            return i
        # Another newline within few cells: cell i is still a user's text, since users' texts are
        # the last fields and the next row begins right after them.
        if any(cell.startswith("\n") for cell in cells[i + 1 : i + 1 + _AFTER_TEXTS]):
            continue
        is_whole = i + width <= end and cells[i + width].startswith("\n")
        if is_whole or is_row_start(cells[i][1:]):
            return i
    return end


def _make_cut_error(answer: str) -> MalformedText:
    return MalformedText(f"the answer ends in the middle of a row: {answer[-80:]!r}")


def name_unread_row(row_kind: str, cell: str, uid: str = "") -> UnreadRow:
    """Name an unread row by its first cell, which is a job's id if it is a number."""
    job_id = JobId(int(cell)) if is_number(cell) else None
    return UnreadRow(
        f"{row_kind} {quote_cell(cell)}", "", job_id, int(uid) if is_number(uid) else None
    )


def is_number(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST_NUMBER


def parse_text(cell: str) -> str:
    return "" if cell in _NO_TEXT else cell


def parse_name(cell: str) -> str:
    """Return a name that Slurm gives. Raises MalformedText if it is not UTF-8, which only users'
    texts may be."""
    if _NOT_UTF8 in cell:
        raise MalformedText(f"not UTF-8: {cell[:40]!r}")
    return parse_text(cell)


def parse_integer(cell: str) -> int:
    """Parse a count or an id. Padding is refused, since a padded field may have been cut."""
    if not is_number(cell):
        raise MalformedText(f"not a number: {cell[:40]!r}")
    return check_range(int(cell))


def check_range(number: int) -> int:
    """Return the number. Raises MalformedText if it is too large for a column."""
    if number > LARGEST:
        raise MalformedText(f"out of range: {number}")
    return number


def parse_optional_integer(cell: str) -> int | None:
    return parse_integer(cell) if parse_text(cell) else None


def parse_lowest(cell: str) -> int:
    """Return the least of a range such as `2-4`, which the job needs to start."""
    return parse_integer(cell.partition("-")[0])


def parse_instant(cell: str) -> int | None:
    """Parse epoch seconds (SLURM_TIME_FORMAT=%s); None: not yet, or not known."""
    return None if cell.upper() in _NO_INSTANT else parse_integer(cell)


def parse_job_state(cell: str) -> JobState:
    """Parse a state without what follows it, as in `CANCELLED by 1001`."""
    word = cell.partition(" ")[0].rstrip("+")
    try:
        return JobState(word)
    except ValueError:
        return JobState.UNKNOWN
