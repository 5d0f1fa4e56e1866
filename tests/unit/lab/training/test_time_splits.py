"""No fold learns from what was not known when its window began."""

import pytest

from mirage.errors import InputError
from mirage.lab.training.dataset import Rows
from mirage.lab.training.metrics import time_splits
from tests.support.training.queue_tables import at_load, queue_table

ROWS = Rows.from_tables([queue_table(120)], every=6)


def test_a_window_follows_everything_that_is_learned_from() -> None:
    splits = time_splits.split_rolling(ROWS, 3)
    assert len(splits) == 3
    for learned, window in splits:
        assert ROWS.known_at[learned].max() <= ROWS.start_point[window].min()
    judged = sum(int(window.sum()) for _, window in splits)
    assert judged == 60


def test_the_newest_are_held_back() -> None:
    earlier, newest = time_splits.split_newest(ROWS, 0.2)
    assert newest.sum() == 24
    assert newest[-1]
    assert ROWS.known_at[earlier].max() <= ROWS.start_point[newest].min()


def test_other_loads_are_learned_from_and_nobody_is_judged_by_them() -> None:
    others = [at_load(queue_table(40, seed=n), load) for n, load in ((5, 0.8), (6, 1.2))]
    mixed = Rows.from_tables([queue_table(120), *others], every=6)
    alone = time_splits.split_rolling(ROWS, 3)
    for (learned, window), (_, as_before) in zip(
        time_splits.split_rolling(mixed, 3), alone, strict=True
    ):
        assert mixed.as_logged[window].all()
        assert list(mixed.start_point[window]) == list(ROWS.start_point[as_before])
        assert (~mixed.as_logged[learned]).any()
        assert mixed.known_at[learned].max() <= mixed.start_point[window].min()
    _, newest = time_splits.split_newest(mixed, 0.2)
    assert mixed.as_logged[newest].all()
    assert newest.sum() == 24


def test_too_few_episodes_are_refused() -> None:
    few = Rows.from_tables([queue_table(6)])
    with pytest.raises(InputError, match="too few episodes"):
        time_splits.split_rolling(few, 3)
