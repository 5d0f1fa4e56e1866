"""What the README says of the demo is what the results page says."""

from pathlib import Path

import pytest

from tests.support import demo_figures
from tests.support.demo_figures import FREE, OURS, PINNED, PLAIN, README, RESULTS


@pytest.mark.parametrize(
    ("page", "name", "column"),
    [(README, "pinned", PINNED), (README, "unpinned", FREE), (RESULTS, "unpinned", FREE)],
    ids=["README-pinned", "README-unpinned", "results-unpinned"],
)
def test_the_sentences_have_the_costs_of_the_table(page: Path, name: str, column: int) -> None:
    rows = demo_figures.read_columns()
    costs = (demo_figures.read_cost(rows, policy, column) for policy in (OURS, PLAIN))
    assert demo_figures.read_block(page, name) == demo_figures.render_costs(*costs)


def test_the_readmes_table_is_of_the_run_in_the_results() -> None:
    rows = demo_figures.read_columns()
    told = [line.split() for line in demo_figures.read_block(README, "table").splitlines()]
    costs = {words[0]: words[5] for words in told if words[0] in (OURS, PLAIN)}
    assert costs == {p: demo_figures.read_cost(rows, p, PINNED) for p in (OURS, PLAIN)}
