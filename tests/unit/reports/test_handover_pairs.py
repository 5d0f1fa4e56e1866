"""Which link hands over to which, where one of many that stand was cancelled while it waited.

All of a chain's links stand (presubmit all). Link 2 is cancelled 100 s after link 1 began; link 1
runs for 5,000 s; link 3 starts later. Every reader counts link 3 against link 1.
"""

from datetime import datetime

from mirage.chains.open_handovers import list_open_handovers
from mirage.chains.overlap_price import measure_start_up_s
from mirage.database.chains import chains, decisions
from mirage.database.chains.chains import HandoverFilter
from mirage.database.chains.decisions import NewDecision
from mirage.database.chains.handover_outcomes import put_would_free
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Principal, Role
from mirage.domain.chain import ChainState, LinkState, Position, Presubmit, Style
from mirage.domain.decision import Action, Decision, Mode
from mirage.domain.handover import Handover
from mirage.domain.job import JobState
from mirage.provision.control.limits import Limits
from mirage.provision.overlap_budget import read_overlap_budget
from mirage.reports import handover_outcomes
from mirage.reports.chain_timeline import build_timeline
from mirage.reports.impact import build_impact
from mirage.web.api import serializers
from mirage.web.shared.dependencies import Freshness
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    chain,
    ended,
    links,
    register,
    running,
    standby,
    sync,
)

BEGAN, CANCELLED_AT, ENDED_AT = NOW - 60, NOW + 40, NOW + 4940
ADMIN = Principal(uid=0, user="root", role=Role.ADMIN)
LIMIT = {"time_limit_s": 2 * HOUR}


def cancel_second(store: Store) -> None:
    """Alice's three links stand, link 1 runs, and she cancels link 2."""
    register(store, links=3, presubmit=Presubmit.ALL, style=Style.SWITCH)
    behind_both = "afterany:11(unfulfilled),afterany:12(unfulfilled)"
    first = running(1, BEGAN, **LIMIT)
    sync(store, first, standby(2), standby(3, dependency=behind_both), now=NOW)
    gone = ended(2, JobState.CANCELLED, None, CANCELLED_AT)
    sync(store, first, gone, standby(3, dependency="afterany:11(unfulfilled)"), now=NOW + 60)


def start_third(store: Store, late_s: int) -> None:
    """Link 3 starts so long after the end of link 1, or before it."""
    start, now = ENDED_AT + late_s, ENDED_AT + 100
    over = ended(1, JobState.TIMEOUT, BEGAN, ENDED_AT, **LIMIT)
    sync(store, over, running(3, start, eligible=min(start, ENDED_AT), **LIMIT), now=now)


def test_the_standby_behind_a_cancelled_one_waits_for_the_link_that_runs(lab_store: Store) -> None:
    cancel_second(lab_store)
    second, third = links(lab_store)[2], links(lab_store)[3]
    assert (second.state, second.start, second.end) == (LinkState.ENDED, None, CANCELLED_AT)
    assert third.position is Position.HELD
    with lab_store.read() as tx:
        (handover,) = list_open_handovers(tx, 1, ChainState.ACTIVE)
        (coming,) = build_timeline(
            tx, 1, chain(lab_store), chains.list_links(tx, 1, CHAIN)
        ).handovers
    assert (handover.predecessor.index, handover.standby.index) == (1, 3)
    assert (coming.predecessor.index, coming.successor.index) == (1, 3)


def test_a_plan_that_names_the_running_link_is_the_plan_of_the_standby(lab_store: Store) -> None:
    cancel_second(lab_store)
    planned = standby(3, dependency="afterany:11(unfulfilled)?after:11+50(unfulfilled)")
    sync(lab_store, running(1, BEGAN, **LIMIT), planned, now=NOW + 120)
    third = links(lab_store)[3]
    assert (third.plan_min, third.planned_release) == (50, BEGAN + 3000)


def test_ten_seconds_without_a_link_are_an_interruption_of_ten_seconds(lab_store: Store) -> None:
    cancel_second(lab_store)
    start_third(lab_store, 10)
    with lab_store.read() as tx:
        known = chains.list_links(tx, 1, CHAIN)
        (listed,) = chains.list_handovers(tx, 1)
        (paged,) = chains.list_handover_page(tx, 1, HandoverFilter())
        timeline = build_timeline(tx, 1, chain(lab_store), known)
        modes = read_modes(tx, 1)
    shown = serializers.serialize_chain(
        chain(lab_store), known, Freshness(as_of=None, stale=False), modes, None, 2
    )
    assert [listed.predecessor.index, paged.predecessor.index] == [1, 1]
    assert [one.over for one in timeline.handovers] == [Handover(ENDED_AT, ENDED_AT + 10)]
    (served,) = shown.handovers
    assert (served.link, shown.handovers_done) == (3, 1)
    assert served.predecessor_end == datetime.fromtimestamp(ENDED_AT, served.predecessor_end.tzinfo)
    assert round(shown.interruption_h * HOUR) == 10


def test_impact_and_its_baselines_count_from_the_link_that_ran(lab_store: Store) -> None:
    cancel_second(lab_store)
    waits = Decision(action=Action.WAIT, reason="not yet", policy="auto")
    with lab_store.begin() as tx:
        new = NewDecision(at=NOW, chain_id=CHAIN, index=3, mode=Mode.SHADOW, decision=waits)
        decisions.record_decisions(tx, 1, [new])
        put_would_free(tx, [(CHAIN, 3, "fixed-lead", ENDED_AT - 8)])
    start_third(lab_store, 10)
    with lab_store.begin() as tx:
        assert handover_outcomes.record_outcomes(tx, 1) == 1
        found = build_impact(tx, 1, 0, NOW + 10 * HOUR, ADMIN).shadow
    (fixed,) = (one for one in found.saved if one.baseline == "fixed-lead")
    assert round(found.interruption_h * HOUR) == 10
    assert round(fixed.baseline_interruption_h * HOUR) == 2


def test_the_budget_counts_the_overlap_of_the_links_that_ran_side_by_side(lab_store: Store) -> None:
    cancel_second(lab_store)
    start_third(lab_store, -900)
    with lab_store.read() as tx:
        budget = read_overlap_budget(tx, 1, ENDED_AT + 100, Limits())
    assert budget.sum_spent("ml", chain(lab_store).uid).account == 0.25
    assert measure_start_up_s(list(links(lab_store).values())) == 900


def test_the_budget_counts_two_links_that_still_run_side_by_side(lab_store: Store) -> None:
    cancel_second(lab_store)
    ends = BEGAN + 2 * HOUR
    beside = running(3, ends - HOUR, **LIMIT)
    sync(lab_store, running(1, BEGAN, **LIMIT), beside, now=ends - HOUR)
    with lab_store.read() as tx:
        budget = read_overlap_budget(tx, 1, ends, Limits())
    assert budget.sum_spent("ml", chain(lab_store).uid).account == 1.0
