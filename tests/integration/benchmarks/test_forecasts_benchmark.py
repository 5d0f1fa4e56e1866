"""The benchmark of forecasts knows nothing later, and shows what the rolling adjustment is for."""

import numpy as np

from benchmarks.forecasts import ROLLING, Queue, Scored, Told, fitted, report, splits, told
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.learn.trees.tree_families import Boosted
from tests.support.episodes.tables import HOUR_S, MONDAY
from tests.support.learn.queue_tables import LEFT_S, queue_table

BUSY_FROM, EPISODES = 240, 840
FAMILY = Boosted(trees=40, rate=0.15)
DRIFTED = ROLLING.format(FAMILY.name)


def drifting(later_by: float = 0.0, since: int = EPISODES) -> EpisodeTable:
    """From BUSY_FROM on, who waits at all waits twice to four times what is seen tells, by the day.

    From `since` on, longer still: `later_by` in the logarithm.
    """
    made = queue_table(EPISODES, seed=2)
    after = np.arange(EPISODES)
    day = np.random.default_rng(4).normal(1.0, 0.4, EPISODES // 6 + 1)[after // 6]
    more = (day * (after >= BUSY_FROM) + later_by * (after >= since))[:, None]
    wait_h = np.maximum(made.outcome_h + LEFT_S / HOUR_S, 0.0)
    busier_h = np.expm1(np.log1p(wait_h) + more * (wait_h > 0.0))
    outcome_s = np.round(busier_h * HOUR_S - LEFT_S).astype(np.int32)
    columns = {name: made._columns[name] for name in made._columns}
    return EpisodeTable(made.about, columns | {"outcome_s": outcome_s})


def forecasts(table: EpisodeTable) -> tuple[Queue, np.ndarray, Told]:
    """Of the newer half, learned from the older."""
    queue = Queue.of([table])
    (split,) = splits(queue.rows, MONDAY + BUSY_FROM * 4 * HOUR_S, 1)
    trees = {FAMILY.name: fitted(queue, split.past, split.later, FAMILY)}
    return queue, split.later, told(queue, split.past, split.later, trees)


def test_coverage_comes_back_after_the_load_has_risen() -> None:
    queue, later, found = forecasts(drifting())
    # The window is full of busy days three weeks after the change.
    settled = slice(140, None)
    waits = queue.wait_h[later][settled]
    fixed, rolled = (Scored.of(found[name][settled], waits) for name in (FAMILY.name, DRIFTED))
    assert fixed.inside_pct.mean() < 60.0
    assert fixed.below_p90_pct.mean() < 60.0
    assert 75.0 <= rolled.inside_pct.mean() <= 85.0
    assert 87.0 <= rolled.below_p90_pct.mean() <= 93.0
    assert rolled.pinball_h.mean() < fixed.pinball_h.mean()


def test_later_hand_overs_change_no_earlier_forecast() -> None:
    since = 360
    queue, later, before = forecasts(drifting())
    _, _, after = forecasts(drifting(later_by=1.0, since=since))
    earlier = queue.at[later] < queue.rows.start_point[since]
    for name, quantiles in before.items():
        np.testing.assert_array_equal(quantiles[earlier], after[name][earlier])
    assert (before[DRIFTED][~earlier] != after[DRIFTED][~earlier]).any()


def test_every_forecast_is_judged_on_the_same_hand_overs() -> None:
    queue = Queue.of([drifting()])
    (found,) = report(queue, splits(queue.rows, None, 2), FAMILY).values()
    assert found["handovers"] == EPISODES // 2
    assert len(found["windows"]) == 2
    floor, trees = found["forecasts"]["empirical"], found["forecasts"][FAMILY.name]
    assert floor["under_floor_pct"] == 0.0
    low, high = trees["under_floor_pct_ci"]
    assert low < trees["under_floor_pct"] < high
