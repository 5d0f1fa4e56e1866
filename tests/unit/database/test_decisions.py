"""Decisions: intention, result, and runs of the same answer."""

from dataclasses import replace

import pytest

from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow, Effect, NewDecision
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.errors import NotFound
from tests.support.chains import make_chain

pytestmark = pytest.mark.usefixtures("saved_chain")

CHAIN = make_chain()
FORECAST = Forecast(p10_s=60.0, p50_s=3600.5, p90_s=7200.0, samples=100)
WAIT = NewDecision(
    at=1000,
    chain_id=CHAIN.chain_id,
    index=2,
    mode=Mode.ACT,
    decision=Decision(
        action=Action.WAIT,
        reason="median wait 1.0 h, 5.2 h left",
        policy="quantile",
        forecast=FORECAST,
    ),
    time_left_s=18720,
    inputs={"queue": 12, "nested": {"a": [1, None]}},
)


def saying(new: NewDecision, **changes: object) -> NewDecision:
    return replace(new, decision=replace(new.decision, **changes))  # type: ignore[arg-type]


def record_decisions(store: Store, cluster_id: int, *new: NewDecision) -> list[int]:
    with store.begin() as tx:
        return [decisions.record_decisions(tx, cluster_id, [n])[0] for n in new]


def rows(store: Store) -> list[DecisionRow]:
    """Oldest first."""
    with store.read() as tx:
        return decisions.list_decisions(tx, 1)[::-1]


FREE = saying(WAIT, action=Action.FREE, reason="5.2 h left, less than 6.0 h")


def test_decision_comes_back_with_what_it_was_made_from(store: Store, cluster_id: int) -> None:
    (decision_id,) = record_decisions(store, cluster_id, WAIT)
    assert rows(store) == [
        DecisionRow(
            id=decision_id,
            at=1000,
            last_at=1000,
            repeats=0,
            chain_id=CHAIN.chain_id,
            index=2,
            mode=Mode.ACT,
            policy="quantile",
            action=Action.WAIT,
            reason="median wait 1.0 h, 5.2 h left",
            time_left_s=18720,
            forecast=FORECAST,
            effect=Effect.NONE,
            error="",
            inputs=WAIT.inputs,
        )
    ]


def test_decision_without_forecast(store: Store, cluster_id: int) -> None:
    record_decisions(store, cluster_id, saying(WAIT, forecast=None))
    assert rows(store)[0].forecast is None


@pytest.mark.parametrize(
    ("mode", "action", "effect"),
    [
        (Mode.ACT, Action.FREE, Effect.INTENDED),
        (Mode.ACT, Action.PIN, Effect.INTENDED),
        (Mode.ACT, Action.HOLD, Effect.INTENDED),
        (Mode.ACT, Action.WAIT, Effect.NONE),
        (Mode.SHADOW, Action.FREE, Effect.NONE),
    ],
)
def test_only_a_move_in_act_mode_is_an_intention(
    store: Store, cluster_id: int, mode: Mode, action: Action, effect: Effect
) -> None:
    record_decisions(store, cluster_id, replace(saying(WAIT, action=action), mode=mode))
    assert rows(store)[0].effect is effect
    with store.read() as tx:
        assert len(decisions.list_intended(tx, cluster_id)) == (effect is Effect.INTENDED)


def test_settled_intention_is_one_no_more(store: Store, cluster_id: int) -> None:
    first, second = record_decisions(store, cluster_id, FREE, FREE)
    with store.begin() as tx:
        assert [d.id for d in decisions.list_intended(tx, cluster_id)] == [first, second]
        decisions.settle_decision(tx, cluster_id, first, Effect.DONE)
        decisions.settle_decision(tx, cluster_id, second, Effect.REFUSED, "Invalid user id")
        assert decisions.list_intended(tx, cluster_id) == []
    assert [(d.effect, d.error) for d in rows(store)] == [
        (Effect.DONE, ""),
        (Effect.REFUSED, "Invalid user id"),
    ]


def test_settling_what_is_not_there(store: Store) -> None:
    with store.begin() as tx, pytest.raises(NotFound):
        decisions.settle_decision(tx, 1, 99, Effect.DONE)


def test_repeated_wait_is_counted_and_shows_its_newest_numbers(
    store: Store, cluster_id: int
) -> None:
    minutes = [
        replace(
            saying(WAIT, reason=f"median wait {i / 10} h, {5 - i / 60:.1f} h left"),
            at=1000 + 60 * i,
            time_left_s=18000 - 60 * i,
            inputs={"queue": i},
        )
        for i in range(60)
    ]
    assert len(set(record_decisions(store, cluster_id, *minutes))) == 1
    (row,) = rows(store)
    assert (row.at, row.last_at, row.repeats) == (1000, 1000 + 59 * 60, 59)
    assert row.reason == minutes[-1].decision.reason
    assert (row.time_left_s, row.inputs) == (minutes[-1].time_left_s, {"queue": 59})


def test_run_is_broken_after_an_hour(store: Store, cluster_id: int) -> None:
    hours = [replace(WAIT, at=1000 + 60 * i) for i in range(3 * 60)]
    record_decisions(store, cluster_id, *hours)
    assert [r.repeats for r in rows(store)] == [59] * 3


def test_repeated_shadow_move_keeps_the_first(store: Store, cluster_id: int) -> None:
    shadow = replace(FREE, mode=Mode.SHADOW)
    record_decisions(store, cluster_id, shadow, replace(shadow, at=1060, time_left_s=1))
    (row,) = rows(store)
    assert (row.at, row.last_at, row.repeats, row.time_left_s) == (1000, 1060, 1, 18720)


def test_moves_that_act_are_never_counted_together(store: Store, cluster_id: int) -> None:
    record_decisions(store, cluster_id, FREE, replace(FREE, at=1060))
    assert [r.repeats for r in rows(store)] == [0, 0]


@pytest.mark.parametrize(
    "other",
    [
        saying(WAIT, policy="average"),
        saying(WAIT, reason="too few samples: 3"),
        replace(WAIT, mode=Mode.SHADOW),
        replace(WAIT, index=3),
        FREE,
    ],
)
def test_what_differs_is_a_row_of_its_own(
    store: Store, cluster_id: int, other: NewDecision
) -> None:
    record_decisions(store, cluster_id, WAIT, replace(other, at=1060))
    assert len(rows(store)) == 2


def test_wait_after_a_move_is_a_row_of_its_own(store: Store, cluster_id: int) -> None:
    record_decisions(store, cluster_id, WAIT, replace(FREE, at=1060), replace(WAIT, at=1120))
    assert len(rows(store)) == 3


def test_last_is_the_links_newest(store: Store, cluster_id: int) -> None:
    record_decisions(store, cluster_id, WAIT, replace(FREE, at=1060), replace(WAIT, index=3))
    with store.read() as tx:
        found = decisions.find_last_decision(tx, cluster_id, CHAIN.chain_id, 2)
        assert found is not None
        assert found.action is Action.FREE
        assert decisions.find_last_decision(tx, cluster_id, CHAIN.chain_id, 4) is None


def test_pages_follow_each_other(store: Store, cluster_id: int) -> None:
    ids = record_decisions(store, cluster_id, *(replace(FREE, at=1000 + i) for i in range(5)))
    seen: list[int] = []
    with store.read() as tx:
        while page := decisions.list_decisions(
            tx, cluster_id, chain_id=CHAIN.chain_id, after=seen[-1] if seen else None, limit=2
        ):
            seen += [d.id for d in page]
        assert decisions.list_decisions(tx, cluster_id, chain_id=ChainId("other")) == []
    assert seen == ids[::-1]
