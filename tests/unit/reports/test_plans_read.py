"""Who reads when a standby was made eligible reads releases that Slurm made by a plan as well.

From text as squeue prints it: a link of a day runs on one node, its successor is planned for four
hours before the end, becomes eligible nine seconds after that, and starts three hours before it.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import NewDecision
from mirage.database.chains.handover_outcomes import OutcomeSpan, count_while_away
from mirage.database.chains.open_links import count_planned_standbys, list_overlapping_chains
from mirage.database.events import audit
from mirage.database.jobs import queue_sums
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Principal, Role
from mirage.domain.chain import LinkState, Planner
from mirage.domain.decision import Action, Decision, Mode
from mirage.domain.time_units import DAY_S
from mirage.lab.shadow_report.handover_pairs import ReportOptions
from mirage.lab.shadow_report.report_text import describe_pairs
from mirage.lab.shadow_report.stored_history import count_released_while_away
from mirage.lab.site_history import SiteHistory
from mirage.provision.control.limits import Limits
from mirage.provision.overlap_budget import read_overlap_budget
from mirage.reports import handover_outcomes
from mirage.reports.impact import Impact, build_impact
from mirage.simulator.types import Params
from tests.integration.provision.test_release_planning import (
    END,
    LIMIT,
    minutes,
    runs,
    shown_plan,
    stands,
)
from tests.support.provision.printed import follow_queue
from tests.support.provision.slurm_jobs import ALICE, CHAIN, HOUR, NOW, links

DUE = END - 4 * HOUR
ELIGIBLE = DUE + 9
BEGINS = END - 3 * HOUR
ADMIN = Principal(uid=0, user="root", role=Role.ADMIN)
SAYS = {
    Planner.LINK: "",
    Planner.SERVICE: "mirage:planned-by=service ",
    Planner.USER: "mirage:lead=4:00:00 ",
}
EACH = pytest.mark.parametrize("by", list(Planner))


def released(store: Store, by: Planner, *, now: int = DUE + 60) -> None:
    """Planned, and released by that."""
    comment = f"{SAYS[by]}mirage:{CHAIN}:2"
    follow_queue(store, runs() + stands(shown_plan(minutes(4)), Comment=comment))
    out: dict[str, Any] = {"EligibleTime": str(ELIGIBLE), "Reason": "Priority", "Comment": comment}
    follow_queue(store, runs() + stands("(null)", **out), now)
    assert (links(store)[2].freed_at, links(store)[2].freed_by) == (ELIGIBLE, by)


def began(store: Store, by: Planner, *, now: int = BEGINS + 60, over: bool = False) -> None:
    released(store, by)
    cells: dict[str, Any] = {
        "State": "RUNNING",
        "Reason": "None",
        "NodeList": "g2",
        "StartTime": str(BEGINS),
    }
    cells |= {"EndTime": str(BEGINS + LIMIT), "EligibleTime": str(ELIGIBLE)}
    cells |= {"Comment": f"{SAYS[by]}mirage:{CHAIN}:2"}
    before = runs(State="TIMEOUT") if over else runs()
    follow_queue(store, before + stands("(null)", **cells), now)
    assert links(store)[2].state is LinkState.RUNNING


def told(store: Store) -> Impact:
    with store.begin() as tx:
        handover_outcomes.record_outcomes(tx, 1)
    with store.read() as tx:
        return build_impact(tx, 1, 0, END + LIMIT, ADMIN)


@EACH
def test_that_slurm_released_it_is_written_down_once(lab_store: Store, by: Planner) -> None:
    began(lab_store, by)
    with lab_store.read() as tx:
        told = [
            row
            for row in audit.list_entries(tx, 1, chain_id=CHAIN)
            if row.event == "released by plan"
        ]
    assert [row.detail for row in told] == [{"link": 2, "at": ELIGIBLE, "by": by.value}]


@EACH
def test_a_standby_that_a_plan_released_may_cost_its_owner_overlap(
    lab_store: Store, by: Planner
) -> None:
    """Of the link's plan, whatever its comment says; of the user's own nobody."""
    released(lab_store, by)
    with lab_store.read() as tx:
        assert list_overlapping_chains(tx, 1) == [CHAIN]
        # From now on, of one node.
        spent = read_overlap_budget(tx, 1, DUE + 60, Limits()).sum_spent("ml", ALICE)
    assert spent.user == pytest.approx(0 if by is Planner.USER else 4 - 1 / 60)
    assert (spent.account, spent.cluster) == (0, 0)


@EACH
def test_its_wait_begins_when_slurm_released_it(lab_store: Store, by: Planner) -> None:
    began(lab_store, by)
    with lab_store.read() as tx:
        known = chains.read_handover_waits(tx, 1, "gpu", nodes=1, last=10)
    assert known.wait_s.tolist() == [BEGINS - ELIGIBLE]


@pytest.mark.parametrize("by", [Planner.SERVICE, Planner.LINK])
def test_what_a_plan_saved_is_mirages(lab_store: Store, by: Planner) -> None:
    began(lab_store, by, now=END + 30, over=True)
    part = told(lab_store).act
    assert (part.handovers, part.interruption_h, part.overlap_node_h) == (1, 0.0, 3.0)
    saved = {one.baseline: one.interruption_saved_h for one in part.saved}
    assert saved["reactive"] == pytest.approx((BEGINS - ELIGIBLE) / HOUR)


def test_what_its_owners_plan_saved_is_not(lab_store: Store) -> None:
    began(lab_store, Planner.USER, now=END + 30, over=True)
    found = told(lab_store)
    assert (found.act.handovers, found.shadow.handovers, found.unasked) == (0, 0, 1)


def looks(store: Store, *instants: int) -> None:
    """Mirage looked at the queue at these instants."""
    with store.begin() as tx:
        for at in instants:
            queue_sums.add_snapshot(tx, 1, at, {})


@pytest.mark.parametrize(
    ("by", "before", "after", "away"),
    [
        (Planner.SERVICE, 120, 3600, 1),
        (Planner.LINK, 120, 3600, 1),
        (Planner.USER, 120, 3600, 0),
        (Planner.SERVICE, 400, 500, 0),
    ],
)
def test_what_slurm_released_while_mirage_was_away_is_counted(
    lab_store: Store, by: Planner, before: int, after: int, away: int
) -> None:
    began(lab_store, by, now=END + 30, over=True)
    looks(lab_store, ELIGIBLE - before, ELIGIBLE + after)
    assert told(lab_store).released_while_away == away
    with lab_store.read() as tx:
        whole = OutcomeSpan(cluster_id=1, since=0, until=END + LIMIT)
        assert count_while_away(tx, whole) == away
    site = SiteHistory("lab", Params(), lab_store)
    asked = ReportOptions(
        since="3d",
        until=f"{datetime.fromtimestamp(END + DAY_S, UTC):%Y-%m-%d}",
        every="6h",
        partitions=(),
        nodes=(),
        time_limit=None,
    )
    assert count_released_while_away(site, asked) == away


def test_a_site_that_looks_seldom_was_not_away_between_two_looks(lab_store: Store) -> None:
    began(lab_store, Planner.SERVICE, now=END + 30, over=True)
    looks(lab_store, ELIGIBLE - 600, ELIGIBLE + 600)
    with lab_store.begin() as tx:
        handover_outcomes.record_outcomes(tx, 1, away_s=1800)
        assert count_while_away(tx, OutcomeSpan(cluster_id=1, since=0, until=END + LIMIT)) == 0
    assert told(lab_store).released_while_away == 1


def test_the_shadow_report_says_so_in_a_sentence() -> None:
    assert list(describe_pairs({"pairs": []})) == []
    assert list(describe_pairs({"pairs": [], "released_while_away": 0})) == []
    assert list(describe_pairs({"pairs": [], "released_while_away": 3})) == [
        "In this time Slurm released the next link of 3 hand-overs by a plan while Mirage was away."
    ]
    [told] = describe_pairs({"pairs": [], "released_while_away": 1})
    assert "the next link of 1 hand-over by a plan" in told


def test_what_the_service_released_and_then_was_away_is_not_counted(lab_store: Store) -> None:
    began(lab_store, Planner.SERVICE, now=END + 30, over=True)
    looks(lab_store, ELIGIBLE - 1, ELIGIBLE + 3600)
    frees = Decision(action=Action.FREE, reason="now", policy="auto")
    with lab_store.begin() as tx:
        new = NewDecision(at=ELIGIBLE, chain_id=CHAIN, index=2, mode=Mode.ACT, decision=frees)
        decisions.record_decisions(tx, 1, [new])
    assert told(lab_store).released_while_away == 0


def test_plans_that_stand_are_counted_by_who_made_them(lab_store: Store) -> None:
    follow_queue(lab_store, runs() + stands(shown_plan(minutes(4))))
    with lab_store.read() as tx:
        assert count_planned_standbys(tx, 1) == {
            Planner.SERVICE: 0,
            Planner.LINK: 1,
            Planner.USER: 0,
        }
    follow_queue(lab_store, runs() + stands("(null)", EligibleTime=str(NOW + 9)), NOW + 60)
    with lab_store.read() as tx:
        assert sum(count_planned_standbys(tx, 1).values()) == 0
