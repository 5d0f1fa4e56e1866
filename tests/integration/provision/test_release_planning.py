"""Releases that the service plans in Slurm: what it writes into a dependency, and when."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from mirage.chains import link_sync as link_service
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import DecisionRow, Effect
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainMode, ChainState, Planner, Presubmit
from mirage.domain.decision import Action, Decision, Forecast, Mode, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.policies.rules.lead_rules import Reactive, decide_by_lead
from mirage.provision import move_verification
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers, reconcile_intentions
from mirage.provision.release_planning import compute_cost_h
from mirage.slurm.commands import squeue
from tests.support.policies.views import view
from tests.support.provision.printed import print_row
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    WrittenCluster,
    comment,
    links,
    register,
)

LIMIT = 24 * HOUR
START = NOW - HOUR
END = START + LIMIT
HELD = "afterany:11(unfulfilled)"
TOLD = "afterany:11?after:11+{}"


def shown_plan(minutes: int) -> str:
    return f"afterany:11(unfulfilled)?after:11+{minutes}(unfulfilled)"


def minutes(lead_h: float) -> int:
    return round((LIMIT - lead_h * HOUR) / 60)


@dataclass
class Leads(SimplePolicy):
    """Releases so long before the end; the waits that it forecasts are a quarter of that apart."""

    lead_h: float | None = 3.0
    name: str = "leads"

    def decide(self, view: PolicyView) -> Decision:
        if self.lead_h is None:
            return Decision(action=Action.WAIT, reason="not asked yet", policy=self.name)
        wait_s = self.lead_h * HOUR
        forecast = Forecast(p10_s=0.75 * wait_s, p50_s=wait_s, p90_s=1.25 * wait_s)
        return decide_by_lead(view, wait_s, forecast, self.name)


def runs(index: int = 1, start: int = START, limit: str = "1-00:00:00", **cells: str) -> str:
    given = {"JobID": str(10 + index), "State": "RUNNING", "Reason": "None", "NodeList": "g1"}
    given |= {"StartTime": str(start), "EndTime": str(start + LIMIT), "TimeLimit": limit}
    return print_row(**given | {"Comment": comment(index)} | cells)


def stands(dependency: str = HELD, index: int = 2, **cells: str) -> str:
    given = {"JobID": str(10 + index), "Dependency": dependency, "Reason": "Dependency"}
    given |= {"EligibleTime": "N/A", "StartTime": "N/A", "EndTime": "N/A"}
    given |= {"TimeLimit": "1-00:00:00", "Comment": comment(index), "SubmitTime": str(START)}
    return print_row(**given | cells)


class Site:
    """What squeue prints, tick by tick, and what the service says to it."""

    def __init__(self, store: Store, policy: Any = None, **limits: Any) -> None:
        self.store, self.policy = store, policy or Leads()
        self.settings = DecisionSettings(
            get_policy=lambda _: self.policy, default_policy="leads", limits=Limits(**limits)
        )
        self.cluster = WrittenCluster()
        self.looked_at: int | None = None

    def tick(self, *rows: str, now: int = NOW) -> list[tuple[str, int, str]]:
        """The moves."""
        queue = squeue.parse_queue("".join(rows), now)
        self.cluster.jobs, self.cluster.at = list(queue), now
        self.cluster.moves.clear()
        with self.store.begin() as tx:
            link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), now, queue=queue)
            reconcile_intentions(tx, 1, now)
            move_verification.verify_moves(tx, 1, queue, self.looked_at)
        self.looked_at = now
        provision_handovers(
            self.store, self.cluster, 1, Snapshot(queue=queue, nodes=()), self.settings
        )
        return list(self.cluster.moves)

    @property
    def last(self) -> DecisionRow:
        with self.store.read() as tx:
            row = decisions.find_last_decision(tx, 1, CHAIN, 2)
        assert row is not None
        return row

    @property
    def mode(self) -> Mode:
        raise AttributeError

    @mode.setter
    def mode(self, mode: Mode) -> None:
        with self.store.begin() as tx:
            clusters.set_mode(tx, 1, mode)


def test_a_release_is_written_into_the_standbys_dependency(acting_store: Store) -> None:
    site = Site(acting_store)
    assert site.tick(runs(), stands()) == [("hold", 12, TOLD.format(minutes(3)))]
    row, standby = site.last, links(acting_store)[2]
    assert (row.action, row.effect) == (Action.PLAN, Effect.DONE)
    assert row.reason.endswith("planned in Slurm for 3.0 h before the end")
    assert (row.release_at, row.inputs["plan_min"]) == (END - 3 * HOUR, minutes(3))
    assert (standby.planned_release, standby.planned_by) == (END - 3 * HOUR, Planner.SERVICE)
    assert (standby.freed_at, standby.freed_by) == (None, None)
    for later in (60, 120):
        assert site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + later) == []
    assert links(acting_store)[2].planned_by is Planner.SERVICE


@pytest.mark.parametrize(("hours", "moves"), [(3.05, 0), (4.0, 1)])
def test_it_is_moved_for_what_that_saves(acting_store: Store, hours: float, moves: int) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    site.policy.lead_h = hours
    told = site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60)
    assert told == [("hold", 12, TOLD.format(minutes(hours)))] * moves


def test_a_wait_that_is_not_worth_a_move_is_not_planned_for(acting_store: Store) -> None:
    site = Site(acting_store, Leads(0.09))
    assert site.tick(runs(), stands()) == []
    assert site.last.release_at == END - 324


def test_the_last_touch_is_the_releases(acting_store: Store) -> None:
    site = Site(acting_store, max_touches=2)
    site.tick(runs(), stands())
    site.policy.lead_h = 8.0
    assert site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60) == []
    due = END - 8 * HOUR
    told = site.tick(runs(), stands(shown_plan(minutes(3))), now=due)
    assert told == [("free", 12, "")]
    assert links(acting_store)[2].freed_by is Planner.SERVICE


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_it_does_not_act_nothing_is_planned(acting_store: Store, mode: Mode) -> None:
    site = Site(acting_store)
    site.mode = mode
    assert site.tick(runs(), stands()) == []
    if mode is Mode.SHADOW:
        assert (site.last.action, site.last.release_at) == (Action.WAIT, END - 3 * HOUR)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
@pytest.mark.parametrize("paused", [False, True])
def test_at_the_end_of_act_plans_are_taken_back_within_a_tick(
    acting_store: Store, mode: Mode, paused: bool
) -> None:
    register(acting_store, now=START)
    site = Site(acting_store)
    site.tick(runs(), stands())
    site.mode = mode
    if paused:
        with acting_store.begin() as tx:
            chains.save_chain(
                tx, 1, replace(chains.get_chain(tx, 1, CHAIN), state=ChainState.PAUSED)
            )
    told = site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60)
    assert told == [("hold", 12, "afterany:11")]
    standby = links(acting_store)[2]
    assert (standby.plan_min, standby.planned_release, standby.planned_by) == (None, None, None)
    assert site.tick(runs(), stands(), now=NOW + 120) == []


@pytest.mark.parametrize(("registered", "moves"), [(True, 1), (False, 0)])
def test_the_links_own_plan_goes_with_it_unless_no_service_was_told(
    acting_store: Store, registered: bool, moves: int
) -> None:
    if registered:
        register(acting_store, now=START)
    site = Site(acting_store)
    site.mode = Mode.SHADOW
    told = site.tick(runs(), stands(shown_plan(600)))
    assert told == [("hold", 12, "afterany:11")] * moves


def test_the_links_own_plan_is_moved_as_the_services(acting_store: Store) -> None:
    site = Site(acting_store)
    told = site.tick(runs(), stands(shown_plan(600)))
    assert told == [("hold", 12, TOLD.format(minutes(3)))]


def test_a_wait_beside_a_plan_that_stands_records_its_instant(acting_store: Store) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    shown = shown_plan(minutes(3))
    assert site.tick(runs(), stands(shown), now=NOW + 60) == []
    assert site.last.action is Action.WAIT
    assert site.last.inputs["planned_release"] == END - 3 * HOUR
    site.tick(runs(), stands(shown, Reason="JobHeldUser", Priority="0"), now=NOW + 120)
    assert "planned_release" not in site.last.inputs, "the hold keeps it from happening"


@pytest.mark.parametrize("shown", [shown_plan(700), HELD])
def test_what_its_owner_or_an_admin_changed_is_theirs(acting_store: Store, shown: str) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60)
    for later in (120, 180, LIMIT - 2 * HOUR):
        assert site.tick(runs(), stands(shown), now=NOW + later) == []
    assert "Mirage leaves it as it is" in site.last.reason
    site.mode = Mode.SHADOW
    assert site.tick(runs(), stands(shown), now=END - HOUR) == []


@pytest.mark.parametrize(
    "users",
    [
        "afterany:11(unfulfilled),afterok:7(unfulfilled)",
        "afterany:11(unfulfilled)?afterok:7(unfulfilled)",
    ],
)
def test_beside_dependencies_of_its_owner_it_has_no_horizon(
    acting_store: Store, users: str
) -> None:
    site = Site(acting_store)
    assert site.tick(runs(), stands(users)) == []
    assert site.last.reason.endswith("since dependencies of its owner's stand beside Mirage's")


def test_a_singleton_has_none(acting_store: Store) -> None:
    site = Site(acting_store)
    assert site.tick(runs(), stands(f"{HELD},singleton(unfulfilled)")) == []


def test_a_chain_that_never_overlaps_has_none(acting_store: Store) -> None:
    register(acting_store, now=START, max_overlap_s=0)
    site = Site(acting_store)
    assert site.tick(runs(), stands()) == []
    assert site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60) == [
        ("hold", 12, "afterany:11")
    ]


def test_a_chain_of_mode_submit_has_none(acting_store: Store) -> None:
    register(acting_store, now=START, mode=ChainMode.SUBMIT)
    site = Site(acting_store)
    assert site.tick(runs()) == []
    assert site.last.action is Action.WAIT


def test_a_presubmitted_link_behind_the_next_has_none(acting_store: Store) -> None:
    register(acting_store, now=START, presubmit=Presubmit.ALL)
    third = stands("afterany:12(unfulfilled)", 3)
    told = Site(acting_store).tick(runs(), stands(), third)
    assert [job_id for _, job_id, _ in told] == [12]


def test_while_an_earlier_link_runs_no_plan_stands(acting_store: Store) -> None:
    site = Site(acting_store)
    second = runs(2, start=NOW - 60, Dependency="(null)")
    third = "afterany:12(unfulfilled)?after:12+600(unfulfilled)"
    assert site.tick(runs(), second, stands("afterany:12(unfulfilled)", 3)) == []
    told = site.tick(runs(), second, stands(third, 3), now=NOW + 60)
    assert told == [("hold", 13, "afterany:12")]


def test_a_suspended_predecessors_clock_runs_on_so_its_plan_is_dropped(acting_store: Store) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    sleeps = runs(State="SUSPENDED")
    told = site.tick(sleeps, stands(shown_plan(minutes(3))), now=NOW + 60)
    assert told == [("hold", 12, "afterany:11")]
    assert site.tick(sleeps, stands(), now=NOW + 120) == []
    later = runs(EndTime=str(END + HOUR))
    told = site.tick(later, stands(), now=NOW + 180)
    assert told == [("hold", 12, TOLD.format(minutes(3) + 60))]


def test_the_plan_of_one_that_is_requeued_counts_anew(acting_store: Store) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    waits = print_row(Comment=comment(1), SubmitTime=str(NOW), EligibleTime=str(NOW + 120))
    plan = stands(shown_plan(minutes(3)))
    assert site.tick(waits, plan, now=NOW + 60) == []
    again = runs(start=NOW + 240, SubmitTime=str(NOW))
    assert site.tick(again, plan, now=NOW + 300) == []
    assert links(acting_store)[2].planned_release == NOW + 240 + minutes(3) * 60


def test_one_that_was_requeued_after_the_release_by_plan_is_waited_for(acting_store: Store) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    due = END - 3 * HOUR
    free = stands("(null)", EligibleTime=str(due + 9), Reason="Priority")
    site.tick(runs(), free, now=due + 30)
    assert links(acting_store)[2].freed_by is Planner.SERVICE
    waits = print_row(Comment=comment(1), SubmitTime=str(due + 60), EligibleTime=str(due + 180))
    assert site.tick(waits, free, now=due + 90) == [("hold", 12, "afterany:11")]


def test_one_that_its_owner_planned_is_not_put_back(acting_store: Store) -> None:
    theirs: dict[str, Any] = {"Comment": f"mirage:lead=3:00:00 mirage:{CHAIN}:2"}
    site = Site(acting_store)
    assert site.tick(runs(), stands(shown_plan(minutes(3)), **theirs)) == []
    due = END - 3 * HOUR
    free = stands("(null)", EligibleTime=str(due + 9), Reason="Priority", **theirs)
    site.tick(runs(), free, now=due + 30)
    assert links(acting_store)[2].freed_by is Planner.USER
    waits = print_row(Comment=comment(1), SubmitTime=str(due + 60), EligibleTime=str(due + 180))
    assert site.tick(waits, free, now=due + 90) == []


def test_a_site_that_refuses_plans_is_asked_once_and_the_release_still_comes(
    acting_store: Store,
) -> None:
    site = Site(acting_store)
    site.cluster.errors["hold"] = ClusterRefused("Job dependency problem")
    assert len(site.tick(runs(), stands())) == 1
    for later in (60, 2000):
        assert site.tick(runs(), stands(), now=NOW + later) == []
    assert "since Slurm has refused one" in site.last.reason
    assert site.tick(runs(), stands(), now=END - 3 * HOUR) == [("free", 12, "")]


@pytest.mark.parametrize(("shown", "effect"), [(minutes(3), Effect.DONE), (None, Effect.FAILED)])
def test_a_silent_slurm_is_believed_by_what_it_shows(
    acting_store: Store, shown: int | None, effect: Effect
) -> None:
    site = Site(acting_store)
    site.cluster.errors["hold"] = ClusterUnavailable("timed out")
    site.tick(runs(), stands())
    assert site.last.effect is Effect.INTENDED
    site.cluster.errors.clear()
    site.policy.lead_h = None
    site.tick(runs(), stands(HELD if shown is None else shown_plan(shown)), now=NOW + 60)
    with acting_store.read() as tx:
        rows = decisions.list_decisions(tx, 1, chain_id=CHAIN)
    assert [row.effect for row in rows if row.action is Action.PLAN] == [effect]
    by = None if shown is None else Planner.SERVICE
    assert links(acting_store)[2].planned_by is by


def test_a_plan_that_slurm_did_not_keep_is_written_again(acting_store: Store) -> None:
    site = Site(acting_store)
    site.tick(runs(), stands())
    told = site.tick(runs(), stands(), now=NOW + 60)
    assert told == [("hold", 12, TOLD.format(minutes(3)))]
    assert site.tick(runs(), stands(), now=NOW + 120) == []
    assert "since Slurm has refused one" in site.last.reason


def test_what_slurm_has_released_stays_released_at_the_end_of_act(acting_store: Store) -> None:
    register(acting_store, now=START)
    site = Site(acting_store)
    site.tick(runs(), stands())
    due = END - 3 * HOUR
    free = stands("(null)", EligibleTime=str(due + 9), Reason="Priority")
    site.mode = Mode.SHADOW
    assert site.tick(runs(), free, now=due + 30) == []
    assert links(acting_store)[2].freed_by is Planner.SERVICE


def test_a_policy_that_is_never_early_takes_a_plan_back(acting_store: Store) -> None:
    site = Site(acting_store, Reactive())
    assert site.tick(runs(), stands(shown_plan(minutes(3)))) == [("hold", 12, "afterany:11")]
    assert site.tick(runs(), stands(), now=NOW + 60) == []


def test_a_spent_budget_leaves_no_plan_standing(acting_store: Store) -> None:
    site = Site(acting_store, account_overlap_node_h=0.0)
    assert site.tick(runs(), stands()) == []
    assert site.tick(runs(), stands(shown_plan(900)), now=NOW + 60) == [("hold", 12, "afterany:11")]


def test_an_early_start_costs_less_where_the_link_may_give_its_nodes_back() -> None:
    forecast = Forecast(p10_s=0.0, p50_s=HOUR, p90_s=6 * HOUR)
    shown = view(8 * HOUR)
    release = shown.predecessor_end - 6 * HOUR
    held, returned = (compute_cost_h(release, forecast, replace(shown, returns=n)) for n in (0, 2))
    # Three in ten start six hours early, four start five hours early, at half the price.
    assert held == pytest.approx(0.5 * (0.3 * 6 + 0.4 * 5))
    assert returned < held
