"""The table of expectation is whole, and follows docs/admin/identity.md word for word."""

from tests.acceptance.matrix.expected import ACTIONS, ACTORS, NO, NONE, RULES, WAYS, YES, cells
from tests.acceptance.matrix.trying import TRIALS


def test_every_cell_is_there_once() -> None:
    there = [(cell.way, cell.actor, cell.action) for cell in cells()]
    whole = [(way, actor, action) for way in WAYS for actor in ACTORS for action in ACTIONS]
    assert there == whole
    assert {cell.is_to_be for cell in cells()} == {YES, NO, NONE}


def test_every_cell_follows_a_sentence_or_says_why_it_has_no_meaning() -> None:
    rules = " ".join(RULES.read_text().split())
    bare = [cell for cell in cells() if not cell.why]
    unwritten = {cell.why for cell in cells() if cell.is_to_be != NONE and cell.why not in rules}
    assert (bare, unwritten) == ([], set())


def test_every_cell_that_has_a_meaning_is_tried() -> None:
    wanted = {(cell.way, cell.action) for cell in cells() if cell.is_to_be != NONE}
    assert wanted == {(way, action) for way, trials in TRIALS.items() for action in trials}
