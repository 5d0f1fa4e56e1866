"""`auto` over a table walks forward: it learns from what has ended, and from nothing else."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.judging import policy_runner, walk_forward
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.policy_runner import PlayedHandovers, Terms
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.metadata import STEP_S
from mirage.policies import registry
from mirage.policies.auto_policy import AutoPolicy, Choice
from mirage.policies.results.comparison import Weighing, merge_results
from mirage.policies.rules.lead_rules import Quantile, Reactive
from tests.support.episodes.tables import DAY_S, HOUR_S, MONDAY, table

PRICE = 0.5
INSTANTS = 13
"""Two hours."""
LEFT_H = np.arange(INSTANTS - 1, -1, -1) * STEP_S / HOUR_S
NOWHERE = Path("nowhere")


def auto() -> AutoPolicy:
    """Of rules alone, and quick to believe what it sees."""
    weighing = Weighing(half_life_days=10.0, fewest_days=2.0)
    return replace(registry.build_auto(NOWHERE), weighing=weighing)


def chosen(
    made: EpisodeTable, heard: list[Choice] | None = None, asked: AutoPolicy | None = None
) -> policy_runner.ChosenInstants:
    told = (lambda _: None) if heard is None else heard.append
    terms = Terms(overlap_price=PRICE)
    played = walk_forward.play_auto(
        asked or auto(), made, lambda policy: policy_runner.play_policy(made, policy, terms), told
    )
    return played.release_instants


def played(instants: policy_runner.ChosenInstants, returns: int = 0) -> PlayedHandovers:
    return PlayedHandovers(instants, np.full(len(instants), returns, dtype=np.int64))


def cost_h(made: EpisodeTable, instants: policy_runner.ChosenInstants) -> np.ndarray:
    return HandoverOutcomes.from_choices(made, instants).compute_cost_h(PRICE)


def daily(waits_h: list[float], shown_s: int) -> EpisodeTable:
    """A hand-over a day, its queue as long at every instant; other jobs seem to wait `shown_s`."""
    outcome_h = np.array(waits_h)[:, None] - LEFT_H
    points = [MONDAY + i * DAY_S for i in range(len(waits_h))]
    return table(outcome_h.tolist(), start_points=points, waits_s=(shown_s,) * 25)


def random_table(seed: int) -> EpisodeTable:
    """Four hand-overs a day of a queue that comes and goes, and plans that half tell of it."""
    rng = np.random.default_rng(seed)
    count = 80
    load = np.repeat(np.maximum(rng.normal(0.5, 1.0, count // 4), 0.0), 4)
    wait_h = np.maximum(load[:, None] + rng.normal(0.0, 0.2, (count, INSTANTS)), 0.0)
    planned_h = np.maximum(wait_h + rng.normal(0.0, 0.5, wait_h.shape), 0.0)
    started = rng.integers(0, 2 * HOUR_S, count * 25)
    return table(
        (wait_h - LEFT_H).tolist(),
        start_points=[MONDAY + i * DAY_S // 4 for i in range(count)],
        waits_s=(0,) * 25,
        started_wait_s=started.astype(np.int32),
        rivals=rng.integers(0, 2, wait_h.shape).astype(np.int32),
        rivals_planned_s=np.round(planned_h * HOUR_S).astype(np.int32),
        free_nodes=rng.integers(0, 3, wait_h.shape).astype(np.int32),
    )


def changed_after(made: EpisodeTable, at: int, seed: int) -> EpisodeTable:
    """Another future: all that is seen after `at`, and every start that was still to come then."""
    rng = np.random.default_rng(seed)
    other = random_table(seed)
    later = made.instants > at
    start = made.predecessor_end[:, None] + made.outcome_s
    begun = np.maximum(made.instants, at + 1) + rng.integers(0, 4 * HOUR_S, start.shape)
    new_start = np.where(start > at, begun, start)
    columns = {name: made._columns[name] for name in made._columns}
    for name in ("rivals", "rivals_planned_s", "free_nodes"):
        columns[name] = np.where(later, other._columns[name], columns[name])
    waits_s = np.where(
        columns["started_at"] > at, other._columns["started_wait_s"], columns["started_wait_s"]
    )
    outcome_s = (new_start - made.predecessor_end[:, None]).astype(np.int32)
    return EpisodeTable(
        made.metadata, columns | {"outcome_s": outcome_s, "started_wait_s": waits_s}
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("day", [5, 12])
def test_another_future_moves_no_earlier_decision(seed: int, day: int) -> None:
    made = random_table(seed)
    at = MONDAY + day * DAY_S + 3 * HOUR_S
    other = changed_after(made, at, seed + 100)
    heard: list[Choice] = []
    first, second = chosen(made, heard), chosen(other)
    rows = np.arange(len(made))
    when, then = made.instants[rows, first], other.instants[rows, second]
    earlier = (when <= at) | (then <= at)
    assert (first[earlier] == second[earlier]).all()
    # There was something to move: several decided, and the other future was decided otherwise.
    assert len({c.policy.name for c in heard}) > 1
    assert (first[~earlier] != second[~earlier]).any()


def test_where_acting_only_costs_it_learns_not_to_act() -> None:
    made = daily([0.0] * 30, shown_s=HOUR_S)
    acting = cost_h(made, policy_runner.run_policy(made, Quantile(), PRICE))
    assert acting.mean() == pytest.approx(PRICE)
    found = cost_h(made, chosen(made))
    assert found[:3].mean() == pytest.approx(PRICE)
    assert found[6:].max() == 0.0


def test_it_leaves_a_candidate_that_turns_bad() -> None:
    both = AutoPolicy(
        tuple(c for c in auto().candidates if c.name in ("quantile", "reactive")),
        weighing=auto().weighing,
    )
    made = daily([1.0] * 15 + [0.0] * 40, shown_s=HOUR_S)
    heard: list[Choice] = []
    found = chosen(made, heard, both)
    quantile = policy_runner.run_policy(made, Quantile(), PRICE)
    reactive = policy_runner.run_policy(made, Reactive(), PRICE)
    assert (found[:15] == quantile[:15]).all()
    assert (found[-15:] == reactive[-15:]).all()
    assert set(Counter(c.policy.name for c in heard)) == {"quantile", "reactive"}


def test_a_result_is_known_when_its_last_successor_has_started() -> None:
    made = daily([1.0, 5.0], shown_s=0)
    found = walk_forward.collect_results(
        made,
        {
            "reactive": played(policy_runner.choose_reactive(made)),
            "at-once": played(np.zeros(2, dtype=np.int64)),
        },
    )
    wanted = made.predecessor_end + np.array([1, 5]) * HOUR_S
    assert found.known_at.tolist() == wanted.tolist()
    assert found.x_h.tolist() == [[1.0, -1.0], [5.0, 3.0]]
    assert len(found.select_known(int(wanted[0]))) == 1
    at_once = played(np.zeros(2, dtype=np.int64))
    early = walk_forward.collect_results(made, {"at-once": at_once})
    # It ran beside its predecessor: how long, the predecessor's end tells.
    assert early.known_at[0] == made.predecessor_end[0]


def test_what_returns_cost_is_part_of_a_result() -> None:
    made = daily([1.0, 5.0], shown_s=0)
    reactive = policy_runner.choose_reactive(made)
    found = walk_forward.collect_results(
        made, {"holds": played(reactive), "returns": played(reactive, returns=2)}
    )
    more_h = found.compute_cost_h("returns", PRICE) - found.compute_cost_h("holds", PRICE)
    assert more_h.tolist() == pytest.approx([2 * PRICE * 0.1] * 2)
    merged = merge_results([found.select_rows(np.array([i])) for i in range(2)])
    np.testing.assert_array_equal(
        merged.compute_cost_h("returns", PRICE), found.compute_cost_h("returns", PRICE)
    )


def test_cost_is_that_of_the_candidates_where_one_is_always_best() -> None:
    made = daily([2.0] * 20, shown_s=2 * HOUR_S)
    quantile = policy_runner.run_policy(made, Quantile(), PRICE)
    assert chosen(made).tolist() == quantile.tolist()
