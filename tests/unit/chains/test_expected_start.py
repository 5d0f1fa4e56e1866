"""When a chain's next link is expected to start: its release, and the wait that is forecast."""

from typing import Any

import pytest

from mirage.chains import lifecycle
from mirage.chains.expected_start import read_expected_start
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import NewDecision
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, Style
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.domain.job import JobState
from mirage.domain.timelimit import UNLIMITED
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    ended,
    follow,
    job,
    register,
    running,
    standby,
)

END = NOW - 60 + 10 * HOUR
LONGEST_S = 26077
"""Four hours, the p90, as the sentence has it."""
PLANNED_LONGEST_S = 8765
"""The same of an hour and five minutes, which Slurm's own plan has left."""
WAITS = Forecast(p10_s=HOUR, p50_s=2 * HOUR, p90_s=4 * HOUR)
PLANNED = "afterany:11(unfulfilled)?after:11+420(unfulfilled)"
"""Seven hours after the start of link 1, three before its end."""


def first(**fields: Any) -> Any:
    return running(1, time_limit_s=10 * HOUR, **fields)


def begin(store: Store, style: Style = Style.CONCURRENT) -> None:
    register(store, now=NOW - HOUR, style=style)


def decide(store: Store, *, release_at: int | None, mode: Mode = Mode.ACT, at: int = NOW) -> None:
    wait = Decision(
        action=Action.WAIT, reason="so", policy="twin", forecast=WAITS, release_at=release_at
    )
    row = NewDecision(
        at=at, chain_id=CHAIN, index=2, mode=mode, decision=wait, inputs={"standby": 12}
    )
    with store.begin() as tx:
        decisions.record_decisions(tx, 1, [row])


def expect(store: Store, now: int = NOW) -> tuple[int, int, int] | None:
    """p10, p50, p90 of link 2, in seconds after the end of link 1's time limit."""
    with store.read() as tx:
        links = chains.list_links(tx, 1, CHAIN)
        start = read_expected_start(tx, 1, chains.get_chain(tx, 1, CHAIN), links, now=now)
    if start is None:
        return None
    assert start.link == 2
    return start.p10 - END, start.p50 - END, start.p90 - END


def test_a_held_link_waits_from_the_release_that_the_service_expects(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=END - 2 * HOUR)
    assert expect(lab_store) == (-HOUR, 0, LONGEST_S - 2 * HOUR)


def test_a_release_that_is_planned_in_slurm_comes_before_what_the_service_expects(
    lab_store: Store,
) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2, dependency=PLANNED))
    decide(lab_store, release_at=END - HOUR)
    assert expect(lab_store) == (-2 * HOUR, -HOUR, LONGEST_S - 3 * HOUR)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_mirage_does_not_act_a_link_is_released_as_its_predecessor_ends(
    lab_store: Store, mode: Mode
) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=END - 2 * HOUR, mode=mode)
    assert expect(lab_store) == (HOUR, 2 * HOUR, LONGEST_S)


def test_the_script_of_a_sequential_link_begins_no_earlier_than_its_predecessors_end(
    lab_store: Store,
) -> None:
    begin(lab_store, Style.SEQUENTIAL)
    follow(lab_store, first(), standby(2, dependency=PLANNED))
    decide(lab_store, release_at=None)
    assert expect(lab_store) == (0, 0, LONGEST_S - 3 * HOUR)


def test_a_link_that_has_its_nodes_begins_as_its_predecessor_ends(lab_store: Store) -> None:
    begin(lab_store, Style.SEQUENTIAL)
    follow(lab_store, first(), running(2, start=NOW - 30))
    assert expect(lab_store) == (0, 0, 0)


def test_after_the_predecessors_end_the_wait_counts_from_now(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=None)
    later = END + 60
    over = ended(1, JobState.TIMEOUT, NOW - 60, END, time_limit_s=10 * HOUR)
    follow(lab_store, over, standby(2, dependency="(null)"), now=later)
    expected = expect(lab_store, later)
    assert expected == (60 + HOUR, 60 + 2 * HOUR, 60 + LONGEST_S)


def test_slurms_own_plan_counts_once_the_forecast_has_passed(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=NOW)
    late = END - HOUR
    free = standby(2, dependency="(null)", eligible=NOW, start=END + 300)
    follow(lab_store, first(), free, now=late)
    assert expect(lab_store, late) == (late - END, 300, late - END + PLANNED_LONGEST_S)


def test_without_a_plan_of_slurms_a_link_that_waits_beyond_its_p90_starts_from_now_on(
    lab_store: Store,
) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=NOW)
    late = NOW + 5 * HOUR
    free = standby(2, dependency="(null)", eligible=NOW)
    follow(lab_store, first(), free, now=late)
    assert expect(lab_store, late) == (late - END, late - END, NOW + LONGEST_S - END)


def test_nothing_is_expected_where_no_wait_is_forecast(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    assert expect(lab_store) is None


def test_nothing_is_expected_behind_a_link_without_a_time_limit(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, running(1, time_limit_s=UNLIMITED, end=None), standby(2))
    decide(lab_store, release_at=None)
    assert expect(lab_store) is None


@pytest.mark.parametrize("reason", ["JobHeldUser", "ReqNodeNotAvail", "DependencyNeverSatisfied"])
def test_nothing_is_expected_of_a_link_that_something_else_than_the_queue_holds(
    lab_store: Store, reason: str
) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2, reason=reason))
    decide(lab_store, release_at=END - 2 * HOUR)
    assert expect(lab_store) is None


def test_nothing_is_expected_behind_a_link_that_is_suspended_beyond_its_end(
    lab_store: Store,
) -> None:
    begin(lab_store)
    late = END + HOUR
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=None, at=late)
    asleep = job(1, JobState.SUSPENDED, start=NOW - 60, time_limit_s=10 * HOUR)
    follow(lab_store, asleep, standby(2), now=late)
    assert expect(lab_store, late) is None


def test_nothing_is_expected_of_a_paused_chain(lab_store: Store) -> None:
    begin(lab_store)
    follow(lab_store, first(), standby(2))
    decide(lab_store, release_at=None)
    with lab_store.begin() as tx:
        chain = chains.get_chain(tx, 1, CHAIN)
        lifecycle.request_state(tx, 1, chain, ChainState.PAUSED, now=NOW, actor="alice")
    assert expect(lab_store) is None
