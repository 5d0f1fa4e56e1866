"""What is served answers what was fitted."""

import numpy as np
import pytest

from mirage.lab.training.dataset import Rows
from mirage.lab.training.trees import tree_export
from mirage.policies.models.onnx_session import WAIT
from tests.support.training.queue_tables import queue_table, training_table
from tests.support.training.trained import FAMILIES, Kind, fitted, graph

MOST = 1e-5


def named(family: Kind) -> str:
    return family.name


@pytest.mark.parametrize("family", FAMILIES, ids=named)
@pytest.mark.parametrize("seed", [0, 9])
def test_the_graph_gives_what_the_trees_give(family: Kind, seed: int) -> None:
    rows = Rows.from_tables([queue_table(40, seed)])
    made = fitted(family)
    apart = tree_export.measure_parity(graph(family), made.wait, rows.flat)
    assert set(apart) == {WAIT}
    assert max(apart.values()) < MOST


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_on_the_very_thresholds_of_the_splits_too(family: Kind) -> None:
    # Numbers that were learned from lie next to thresholds; rounded ones lie on them.
    rows = np.round(Rows.from_tables([training_table()]).flat, 1)
    made = fitted(family)
    apart = tree_export.measure_parity(graph(family), made.wait, rows)
    assert max(apart.values()) < MOST


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_a_graph_is_small(family: Kind) -> None:
    assert len(graph(family)) < 5_000_000
