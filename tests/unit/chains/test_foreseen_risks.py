"""Chains at risk by what Mirage knows itself: late links, and moves that Slurm did not make."""

from dataclasses import replace

import pytest

from mirage.database.chains import chain_counts, chains, decisions
from mirage.database.chains.chain_ranking import RankingFilter
from mirage.database.chains.decisions import Effect, NewDecision
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, Position
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.domain.job import JobId, JobState
from mirage.reports.overview import build_overview
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    ended,
    events,
    follow,
    job,
    register,
    running,
    standby,
)


@pytest.fixture
def store_of_50(lab_store: Store) -> Store:
    register(lab_store, links=50, now=NOW - HOUR)
    return lab_store


def decide(
    store: Store, action: Action, forecast: Forecast | None = None, at: int = NOW, index: int = 2
) -> int:
    """A decision about the standby in mode act; its number."""
    made = Decision(action=action, reason="so", policy="quantile", forecast=forecast)
    new = NewDecision(
        at=at,
        chain_id=CHAIN,
        index=index,
        mode=Mode.ACT,
        decision=made,
        inputs={"standby": 10 + index},
    )
    with store.begin() as tx:
        return decisions.record_decisions(tx, 1, [new])[0]


def settle(store: Store, number: int, effect: Effect, error: str = "") -> None:
    with store.begin() as tx:
        decisions.settle_decision(tx, 1, number, effect, error)


def counted(store: Store) -> tuple[int, dict[str, int]]:
    """Chains at risk by the overview, and by reason as the metric has them."""
    with store.read() as tx:
        found = build_overview(tx, 1, RankingFilter(), limit=9)
        return found.at_risk, chain_counts.count_chains_at_risk(tx, 1)


@pytest.mark.parametrize("p10_h", [0.5, 1.5])
def test_a_link_whose_p10_lies_after_its_predecessors_end_is_at_risk(
    store_of_50: Store, p10_h: float
) -> None:
    follow(store_of_50, running(1), standby(2))  # ends in 59 min
    waits = Forecast(p10_s=p10_h * HOUR, p50_s=2 * HOUR, p90_s=3 * HOUR)
    decide(store_of_50, Action.WAIT, waits)
    late = p10_h > 1
    state, risk, note = follow(store_of_50, running(1), standby(2), now=NOW + 60)
    assert (state, risk) == (ChainState.ACTIVE, "LateByForecast" if late else "")
    assert counted(store_of_50) == (int(late), {"LateByForecast": 1} if late else {})
    if late:
        assert note == (
            "at risk: link 2 (job 12) will start after the end of the link before it, "
            "by its forecast"
        )
        assert events(store_of_50).count("at risk") == 1


def test_a_link_that_was_freed_too_late_is_at_risk_by_the_forecast_of_its_move(
    store_of_50: Store,
) -> None:
    follow(store_of_50, running(1), standby(2))
    with store_of_50.begin() as tx:
        moved = replace(chains.list_links(tx, 1, CHAIN)[1], position=Position.FREE, freed_at=NOW)
        chains.save_link(tx, 1, moved)
        made = Forecast(p10_s=1.0 * HOUR, p50_s=2.0 * HOUR, p90_s=3.0 * HOUR)
        row = ForecastRow(chain_id=CHAIN, index=2, source="p", at=NOW, forecast=made)
        handover_forecasts.record_forecasts(tx, 1, [row])
    assert follow(store_of_50, running(1), job(2, reason="Priority"), now=NOW + 60)[1] == (
        "LateByForecast"
    )
    over = ended(1, JobState.TIMEOUT, NOW - 60, NOW + 3540)
    begun = running(2, start=NOW + 2 * HOUR)
    assert follow(store_of_50, over, begun, now=NOW + 2 * HOUR)[1] == ""


def test_a_forecast_at_the_edge_is_news_once(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2))
    for step, p10_s in enumerate([1.1 * HOUR, 0.5 * HOUR, 1.1 * HOUR, 0.5 * HOUR]):
        at = NOW + 60 * step
        decide(store_of_50, Action.WAIT, Forecast(p10_s=p10_s, p50_s=2.0 * HOUR), at)
        assert follow(store_of_50, running(1), standby(2), now=at + 30)[1] == "LateByForecast"
    decide(store_of_50, Action.WAIT, Forecast(p10_s=60.0, p50_s=600.0), NOW + 300)
    assert follow(store_of_50, running(1), standby(2), now=NOW + 330)[1] == ""
    assert events(store_of_50).count("at risk") == 1


@pytest.mark.parametrize("action", [Action.FREE, Action.PLAN, Action.PIN])
@pytest.mark.parametrize(
    ("effect", "error"),
    [(Effect.REFUSED, "Access/permission denied"), (Effect.FAILED, "Slurm did not take the move")],
)
def test_a_move_that_slurm_did_not_make_puts_its_chain_at_risk(
    store_of_50: Store, action: Action, effect: Effect, error: str
) -> None:
    follow(store_of_50, running(1), standby(2))
    settle(store_of_50, decide(store_of_50, action), effect, error)
    decide(store_of_50, Action.WAIT, at=NOW + 30)  # what is decided until the next try
    state, risk, note = follow(store_of_50, running(1), standby(2), now=NOW + 60)
    assert (state, risk) == (ChainState.ACTIVE, "MoveRefused")
    assert note == f"at risk: Slurm did not move link 2 (job 12): {error}"
    assert counted(store_of_50) == (1, {"MoveRefused": 1})
    again = decide(store_of_50, Action.FREE, at=NOW + 90)
    assert follow(store_of_50, running(1), standby(2), now=NOW + 95)[1] == "MoveRefused"
    settle(store_of_50, again, Effect.DONE)
    assert follow(store_of_50, running(1), standby(2), now=NOW + 120)[1] == ""


def test_a_move_given_up_for_a_newer_dependency_is_no_risk_and_hides_no_refusal(
    store_of_50: Store,
) -> None:
    follow(store_of_50, running(1), standby(2))
    changed = "job 12 is not moved: its dependency was changed"
    settle(store_of_50, decide(store_of_50, Action.FREE), Effect.GIVEN_UP, changed)
    assert follow(store_of_50, running(1), standby(2), now=NOW + 60)[1] == ""
    assert counted(store_of_50) == (0, {})
    settle(store_of_50, decide(store_of_50, Action.FREE, at=NOW + 65), Effect.REFUSED, "no")
    settle(store_of_50, decide(store_of_50, Action.FREE, at=NOW + 70), Effect.GIVEN_UP, changed)
    assert follow(store_of_50, running(1), standby(2), now=NOW + 80)[1] == "MoveRefused"


def test_a_refusal_is_no_risk_of_another_job_nor_of_a_link_that_is_free(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2))
    settle(store_of_50, decide(store_of_50, Action.FREE), Effect.REFUSED, "no")
    gone = ended(2, JobState.CANCELLED, None, NOW)
    replaced = standby(2, job_id=JobId(19), submit=NOW)
    assert follow(store_of_50, running(1), gone, replaced, now=NOW + 60)[1] == ""


def test_what_slurm_says_of_the_wait_comes_before_what_mirage_foresees(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2))
    settle(store_of_50, decide(store_of_50, Action.FREE), Effect.REFUSED, "no")
    held = standby(2, reason="JobHeldAdmin")
    follow(store_of_50, running(1), held)
    assert follow(store_of_50, running(1), held, now=NOW + 60)[1] == "JobHeldAdmin"
