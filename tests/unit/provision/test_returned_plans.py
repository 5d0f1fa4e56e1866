"""A link that gave its nodes back is left to its own plan, until that has come."""

from collections.abc import Callable
from typing import Any

import pytest

from mirage.chains.expected_start import read_expected_start
from mirage.chains.start_range import read_start_ranges
from mirage.database.chains import chains
from mirage.database.chains.decisions import Effect
from mirage.database.chains.handover_outcomes import sum_returns_saved
from mirage.database.chains.returned_links import count_returns, sum_returned
from mirage.database.forecasts import handover_forecasts
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Principal, Role
from mirage.domain.chain import Planner, Style
from mirage.domain.decision import Action, Decision, Forecast, Mode, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.provision.control.limits import Limits
from mirage.provision.overlap_budget import read_overlap_budget
from mirage.provision.retreats import list_retreats
from mirage.reports import handover_outcomes
from mirage.reports.impact import Impact, build_impact
from tests.integration.provision.test_release_planning import Leads, Site
from tests.support.provision.printed import follow_queue
from tests.support.provision.slurm_jobs import ALICE, CHAIN, HOUR, links, register, sync
from tests.unit.chains.test_returned_links import (
    BEGAN,
    DUE,
    EARLY,
    END,
    HELD_S,
    LEFT,
    LIMIT,
    PLAN_MIN,
    again,
    early,
    find_standby,
    predecessor,
    records_of_return,
)
from tests.unit.provision.test_next_release import shows

ADMIN = Principal(uid=0, user="root", role=Role.ADMIN)
WAITS = again("(null)", job_id=12, Reason="Priority", SubmitTime=str(BEGAN))


class Frees(SimplePolicy):
    """Frees at once, with a forecast of an hour."""

    name = "frees"

    def decide(self, view: PolicyView) -> Decision:
        forecast = Forecast(p10_s=0.75 * HOUR, p50_s=HOUR, p90_s=1.25 * HOUR)
        return Decision(action=Action.FREE, reason="now", policy=self.name, forecast=forecast)


POLICIES = pytest.mark.parametrize("policy", [Frees, Leads, lambda: Leads(1.0)])


@pytest.fixture
def returned(acting_store: Store) -> Site:
    """A site at which the second link has given its nodes back."""
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, max_returns=2, now=BEGAN)
    site = Site(acting_store, Leads(None))
    follow_queue(acting_store, predecessor() + WAITS, EARLY - 30)
    site.tick(predecessor() + early() + again(), now=EARLY + 30)
    assert find_standby(acting_store).returns == 1
    return site


@POLICIES
def test_no_policy_frees_or_plans_a_link_that_gave_its_nodes_back_before_its_plan_is_due(
    returned: Site, policy: Callable[[], SimplePolicy]
) -> None:
    returned.policy = policy()
    for now in (EARLY + 90, EARLY + 3600, DUE - 60, DUE + 60):
        assert returned.tick(predecessor() + again(), now=now) == []
    assert (returned.last.action, returned.last.policy) == (Action.WAIT, "guard")
    assert returned.last.reason == (
        "its link gave its nodes back at 1970-01-12 13:46 UTC and planned its next release for "
        "1970-01-12 17:16 UTC"
    )
    assert returned.last.inputs["planned_release"] == DUE


@POLICIES
def test_nor_one_whose_job_slurm_forgot_before_a_look_showed_it(
    acting_store: Store, policy: Callable[[], SimplePolicy]
) -> None:
    """MinJobAge is shorter than a tick."""
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, now=BEGAN)
    site = Site(acting_store, Leads(None))
    follow_queue(acting_store, predecessor() + WAITS, EARLY - 30)
    site.policy = policy()
    for now in (EARLY + 30, EARLY + 90, DUE - 60):
        assert site.tick(predecessor() + again(), now=now) == []
    assert (site.last.action, site.last.policy) == (Action.WAIT, "guard")
    site.tick(predecessor() + again(), now=DUE + 300)
    assert site.last.policy != "guard"


def test_a_policy_decides_where_slurm_has_not_carried_its_plan_out(returned: Site) -> None:
    returned.policy = Frees()
    assert returned.tick(predecessor() + again(), now=DUE + 300) == [("free", 21, "")]


def expect(store: Store, now: int) -> tuple[int, int, int]:
    """p10, p50, p90 of the start of link 2, in seconds after its predecessor's end."""
    with store.read() as tx:
        known = chains.list_links(tx, 1, CHAIN)
        start = read_expected_start(tx, 1, chains.get_chain(tx, 1, CHAIN), known, now=now)
    assert start is not None
    return start.p10 - END, start.p50 - END, start.p90 - END


def give_back(store: Store, waited_s: int) -> Site:
    """The second link gives its nodes back; its job had waited for so long."""
    register(store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, max_returns=2, now=BEGAN)
    site = Site(store, Leads(None))
    follow_queue(store, predecessor() + WAITS, EARLY - 30)
    left = early(EligibleTime=str(EARLY - waited_s))
    site.tick(predecessor() + left + again(), now=EARLY + 30)
    return site


def test_after_a_return_the_start_is_foretold_by_the_wait_of_the_job_that_left(
    acting_store: Store,
) -> None:
    """It waited an hour and a half; now it is released two and a half hours before the end."""
    site = give_back(acting_store, 5400)
    assert expect(acting_store, EARLY + 30) == (0, 0, 20142 - 9000)
    assert (site.last.policy, site.last.forecast is not None) == ("guard", True)
    out = again("(null)", EligibleTime=str(DUE + 20), Reason="Priority")
    site.tick(predecessor() + out, now=DUE + 60)
    assert expect(acting_store, DUE + 60) == (0, 0, 20142 - 8980)


def test_after_a_return_in_light_load_the_script_is_expected_at_its_predecessors_end(
    acting_store: Store,
) -> None:
    site = give_back(acting_store, 30)
    assert expect(acting_store, EARLY + 30) == (0, 0, 0)
    assert site.last.forecast is not None
    assert site.last.forecast.p10_s == 15, "so it is at no risk of being late"


def test_a_return_that_no_look_showed_leaves_the_start_to_what_similar_jobs_waited(
    acting_store: Store,
) -> None:
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, now=BEGAN)
    site = Site(acting_store, Leads(None))
    shows(acting_store, predecessor(), WAITS, now=EARLY - 30, waited_h=2.0)
    site.tick(predecessor() + again(), now=EARLY + 30)
    assert site.last.policy == "guard"
    assert site.last.forecast is not None
    assert site.last.forecast.p50_s == 2 * HOUR


def test_a_link_whose_plan_was_carried_out_is_released_as_any_other(returned: Site) -> None:
    out = again("(null)", EligibleTime=str(DUE + 20), Reason="Priority")
    returned.policy = Frees()
    assert returned.tick(predecessor() + out, now=DUE + 60) == []
    link = find_standby(returned.store)
    assert (link.freed_at, link.freed_by) == (DUE + 20, Planner.LINK)
    began: dict[str, Any] = {
        "State": "RUNNING",
        "Reason": "None",
        "NodeList": "g2",
        "StartTime": str(DUE + 900),
    }
    began |= {"EndTime": str(DUE + 900 + LIMIT), "EligibleTime": str(DUE + 20)}
    returned.tick(predecessor() + again("(null)", **began), now=DUE + 960)
    with returned.store.read() as tx:
        known = chains.read_handover_waits(tx, 1, "gpu", nodes=1, last=10)
    assert known.wait_s.tolist() == [880], "its wait teaches as any other"


@pytest.mark.parametrize("longer_s", [2 * HOUR, -2 * HOUR])
def test_a_policy_decides_once_the_predecessors_limit_has_changed(
    returned: Site, longer_s: int
) -> None:
    """The plan was made for another end."""
    limit = f"{(LIMIT + longer_s) // HOUR}:00:00"
    before = predecessor(TimeLimit=limit, EndTime=str(END + longer_s))
    returned.policy = Leads(1.0)
    returned.tick(before + again(), now=EARLY + 90)
    assert returned.last.policy == "leads"


def test_a_policy_decides_in_a_new_run_of_the_predecessor(returned: Site) -> None:
    requeued = predecessor(
        State="PENDING", StartTime="N/A", EndTime="N/A", NodeList="", SubmitTime=str(EARLY + 60)
    )
    returned.policy = Frees()
    assert returned.tick(requeued + again(), now=EARLY + 90) == []
    assert find_standby(returned.store).plan_min == PLAN_MIN, "Slurm counts anew from its start"
    start = EARLY + 200
    anew = predecessor(SubmitTime=str(EARLY + 60), StartTime=str(start), EndTime=str(start + LIMIT))
    assert returned.tick(anew + again(), now=start + 60) == [("free", 21, "")]


def test_a_suspended_predecessor_takes_the_plan_back_as_any_other(returned: Site) -> None:
    stopped = predecessor(State="SUSPENDED")
    assert returned.tick(stopped + again(), now=EARLY + 90) == [("hold", 21, "afterany:11")]
    assert returned.last.reason.startswith("its plan is taken back: its predecessor is suspended")
    returned.policy = Frees()
    held = again("afterany:11(unfulfilled)")
    assert returned.tick(predecessor() + held, now=EARLY + 900) == [("free", 21, "")]


@pytest.mark.parametrize(
    "changed", ["afterany:11(unfulfilled)", "afterany:11?after:11+400", "singleton"]
)
def test_what_its_owner_changed_is_left_alone(returned: Site, changed: str) -> None:
    returned.policy = Frees()
    for now in (EARLY + 90, EARLY + 150):
        assert returned.tick(predecessor() + again(changed), now=now) == []


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_mirage_does_not_act_any_more_the_plan_is_taken_back_as_any_other(
    returned: Site, mode: Mode
) -> None:
    returned.mode = mode
    with returned.store.read() as tx:
        assert [one.standby.job_id for one in list_retreats(tx, 1)] == [21]
    assert returned.tick(predecessor() + again(), now=EARLY + 90) == [("hold", 21, "afterany:11")]
    assert returned.last.effect is Effect.DONE


def test_what_a_link_held_and_gave_back_counts_in_the_budgets_of_its_owner(
    returned: Site,
) -> None:
    def sum_spent(now: int, uid: int = ALICE) -> list[int]:
        """Of user, account and cluster, in node-seconds."""
        with returned.store.read() as tx:
            spent = read_overlap_budget(tx, 1, now, Limits()).sum_spent("ml", uid)
        return [round(HOUR * each) for each in (spent.user, spent.account, spent.cluster)]

    assert sum_spent(EARLY + 60) == [HELD_S] * 3
    assert sum_spent(EARLY + 60, uid=7)[0] == 0
    assert sum_spent(LEFT + 86400) == [HELD_S] * 3
    assert sum_spent(LEFT + 86401) == [0, 0, 0]
    gone = again(State="CANCELLED", StartTime="N/A", EndTime=str(EARLY + 300))
    returned.tick(predecessor() + gone, now=EARLY + 330)
    assert links(returned.store)[2].has_vanished
    assert sum_spent(EARLY + 400) == [HELD_S] * 3, "whatever became of the link"


def test_a_hand_over_with_a_return_counts_once_with_what_was_held(returned: Site) -> None:
    """An interruption of ten minutes, and seven seconds of two nodes that were given back."""
    start = END + 600
    ran: dict[str, Any] = {
        "State": "RUNNING",
        "Reason": "None",
        "NodeList": "g[2-3]",
        "NumNodes": "2",
    }
    ran |= {"StartTime": str(start), "EndTime": str(start + LIMIT), "EligibleTime": str(DUE + 9)}
    over = predecessor(State="TIMEOUT")
    returned.tick(over + again("(null)", **ran), now=start + 60)
    found = sum_impact(returned.store)
    assert (found.act.handovers, found.act.returns) == (1, 1)
    assert found.act.interruption_h == pytest.approx(1 / 6)
    assert found.act.overlap_node_h == pytest.approx(2 * HELD_S / HOUR)
    assert found.act.returned_node_h == pytest.approx(2 * HELD_S / HOUR)
    assert found.act.returns_saved_node_h == pytest.approx(2 * (END - LEFT) / HOUR)
    (payer,) = found.payers
    assert (payer.user, payer.account) == ("alice", "ml")
    assert payer.overlap_node_h == pytest.approx(2 * HELD_S / HOUR)
    saved = {one.baseline: one for one in found.act.saved}["reactive"]
    assert saved.mirage_overlap_h == pytest.approx(HELD_S / HOUR)
    assert saved.baseline_interruption_h == pytest.approx((start - DUE - 9) / HOUR)
    assert sum_impact(returned.store).act.handovers == 1
    with returned.store.read() as tx:
        assert (count_returns(tx, 1), sum_returned(tx, 1)) == (1, 2 * HELD_S)
        assert sum_returns_saved(tx, 1) == 2 * (END - LEFT)
        assert len(chains.list_handovers(tx, 1)) == 1


def test_an_early_start_after_a_return_saves_the_time_until_then(returned: Site) -> None:
    start = DUE + 900
    ran: dict[str, Any] = {"State": "RUNNING", "Reason": "None", "NodeList": "g2"}
    ran |= {"StartTime": str(start), "EndTime": str(start + LIMIT), "EligibleTime": str(DUE + 9)}
    returned.tick(predecessor() + again("(null)", **ran), now=start + 60)
    returned.tick(predecessor(State="TIMEOUT") + again("(null)", **ran), now=END + 60)
    found = sum_impact(returned.store)
    assert found.act.returns_saved_node_h == pytest.approx((start - LEFT) / HOUR)


def sum_impact(store: Store) -> Impact:
    with store.begin() as tx:
        handover_outcomes.record_outcomes(tx, 1)
    with store.read() as tx:
        return build_impact(tx, 1, 0, END + LIMIT, ADMIN)


def test_a_forecast_is_judged_by_the_wait_that_it_was_made_for(acting_store: Store) -> None:
    """The service released the first job of the link; the second waits by the link's plan."""
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, now=BEGAN)
    site = Site(acting_store, Frees())
    held = again("afterany:11(unfulfilled)", job_id=12, SubmitTime=str(BEGAN))
    freed_at = EARLY - 600
    assert site.tick(predecessor() + held, now=freed_at) == [("free", 12, "")]
    site.tick(predecessor() + early() + again(), now=EARLY + 30)
    out: dict[str, Any] = {
        "EligibleTime": str(DUE + 20),
        "State": "RUNNING",
        "Reason": "None",
        "NodeList": "g2",
    }
    out |= {"StartTime": str(DUE + 9000), "EndTime": str(DUE + 9000 + LIMIT)}
    site.tick(predecessor() + again("(null)", **out), now=DUE + 9060)
    with acting_store.read() as tx:
        (found,) = handover_forecasts.list_settled_forecasts(tx, 1, 0, END, 10)
        errors = handover_forecasts.list_errors_by_owner(tx, 1, "frees", since=0, last=10)
    assert found.actual_wait_s == EARLY - freed_at
    assert [one.error_s for one in errors] == [HOUR - (EARLY - freed_at)]


def test_no_forecast_is_judged_by_a_wait_of_the_links_own_plan(acting_store: Store) -> None:
    """No look showed the job that the service released: slurmctld forgot it sooner."""
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, now=BEGAN)
    site = Site(acting_store, Frees())
    held = again("afterany:11(unfulfilled)", job_id=12, SubmitTime=str(BEGAN))
    assert site.tick(predecessor() + held, now=EARLY - 600) == [("free", 12, "")]
    follow_queue(acting_store, predecessor() + again(), EARLY + 30)
    sync(acting_store, records_of_return()[1], now=EARLY + 40, accounting=True)
    out: dict[str, Any] = {"EligibleTime": str(DUE + 20), "State": "RUNNING", "NodeList": "g2"}
    out |= {"StartTime": str(DUE + 9000), "EndTime": str(DUE + 9000 + LIMIT)}
    site.tick(predecessor() + again("(null)", **out), now=DUE + 9060)
    assert find_standby(acting_store).freed_at == DUE + 20
    with acting_store.read() as tx:
        assert handover_forecasts.list_settled_forecasts(tx, 1, 0, END, 10) == []


def test_a_forecast_of_the_start_before_a_return_is_none_of_the_start_after_it(
    acting_store: Store,
) -> None:
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, now=BEGAN)
    site = Site(acting_store, Frees())
    held = again("afterany:11(unfulfilled)", job_id=12, SubmitTime=str(BEGAN))
    site.tick(predecessor() + held, now=EARLY - 600)
    with acting_store.read() as tx:
        assert read_start_ranges(tx, 1, [find_standby(acting_store)])
    site.tick(predecessor() + early() + again(), now=EARLY + 30)
    with acting_store.read() as tx:
        (found,) = read_start_ranges(tx, 1, [find_standby(acting_store)]).values()
    assert found.p50 - found.since == 600, "by its own last wait"
