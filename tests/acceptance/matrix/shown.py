"""The table as a person reads it: ways one below the other, actors in rows, actions in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.acceptance.matrix.expected import ACTIONS, ACTORS, NO, NONE, WAYS, YES
from tests.acceptance.matrix.trying import Found

_WIDEST = max(map(len, ACTORS))


def table(found: Sequence[Found]) -> str:
    """`yes`, `no`, `-` without meaning, `?` neither; `!` where it is otherwise than expected."""
    lines = list(_meanings())
    for way, rows in groupby(found, key=lambda each: each.expected.way):
        lines += ["", f"{way}: {WAYS[way]}", "", *_rows(list(rows))]
    differing = [str(each) for each in found if each.differs]
    tried = sum(each.expected.is_to_be != NONE for each in found)
    lines += ["", f"{tried} cells tried, {len(differing)} otherwise than expected", *differing]
    return "\n".join(lines)


def _meanings() -> Iterator[str]:
    for words in (ACTORS, ACTIONS):
        yield from (f"{name:<{_WIDEST}}  {meaning}" for name, meaning in words.items())
        yield ""


def _rows(found: list[Found]) -> Iterator[str]:
    yield _line("", ACTIONS)
    for actor, cells in groupby(found, key=lambda each: each.expected.actor):
        yield _line(actor, [_word(each) for each in cells])
    reasons: dict[str, list[str]] = {}
    for each in found:
        if each.expected.is_to_be == NONE:
            cell = f"{each.expected.actor}, {each.expected.action}"
            reasons.setdefault(each.expected.why, []).append(cell)
    yield from (f"  - {', '.join(_shorter(cells))}: {why}" for why, cells in reasons.items())


def _shorter(cells: list[str]) -> list[str]:
    """One name for a whole row or column."""
    actors = {cell.partition(", ")[0] for cell in cells}
    actions = {cell.partition(", ")[2] for cell in cells}
    return sorted(actors) if len(actors) < len(actions) else sorted(actions)


def _word(found: Found) -> str:
    word = found.found.partition(",")[0]
    return (word if word in {YES, NO, NONE} else "?") + ("!" if found.differs else "")


def _line(head: str, cells: Sequence[str] | dict[str, str]) -> str:
    return f"{head:<{_WIDEST}}  " + "".join(f"{cell:<11}" for cell in cells).rstrip()
