"""What a new release is expected to cost: kept with the decision that leads to an early start."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainMode, ChainState, Presubmit, Style
from mirage.domain.decision import Action, Decision, Forecast, Mode, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.policies.rules.release_cost import ReleaseCosts, decide_by_cost
from mirage.provision.return_costs import COSTS, FRESH_S, KeptCosts, find_kept_costs
from tests.integration.provision.test_release_planning import Site
from tests.support.provision.slurm_jobs import CHAIN, HOUR, register
from tests.unit.chains.test_returned_links import BEGAN, DUE, EARLY, END, LIMIT, again, predecessor
from tests.unit.provision.test_returned_plans import returned

__all__ = ["returned"]

WAITS = tuple(range(1800, 1800 + 19 * 200, 200))


class Foretells(SimplePolicy):
    """Forecasts waits of half an hour to an hour and a half, and releases by what they cost."""

    name = "foretells"

    def __init__(self, waits_s: tuple[int, ...] = WAITS) -> None:
        self.waits_s = waits_s

    def decide(self, view: PolicyView) -> Decision:
        forecast = Forecast(p10_s=2000, p50_s=3600, p90_s=5200, waits_s=self.waits_s)
        if not self.waits_s:
            return Decision(action=Action.FREE, reason="now", policy=self.name, forecast=forecast)
        return decide_by_cost(view, forecast, self.name)


@pytest.fixture
def site(acting_store: Store) -> Site:
    register(acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, max_returns=2, now=BEGAN)
    return Site(acting_store, Foretells())


def stands(dependency: str = "afterany:11(unfulfilled)", **cells: str) -> str:
    return again(dependency, job_id=12, SubmitTime=str(BEGAN), **cells)


def find(site: Site, now: int, index: int = 2, mode: Mode = Mode.ACT) -> KeptCosts | None:
    with site.store.read() as tx:
        chain = chains.get_chain(tx, 1, CHAIN)
        return find_kept_costs(tx, 1, chain, index=index, mode=mode, now=now)


def release(site: Site) -> int:
    """The standby is released, and waits; when that was."""
    now = END - HOUR // 2
    assert site.tick(predecessor() + stands(), now=now) == [("free", 12, "")]
    return now


def test_the_costs_of_a_release_are_those_of_its_forecast(site: Site) -> None:
    now = release(site)
    kept = find(site, now + 60)
    assert kept is not None
    assert (kept.index, kept.made_at, kept.price) == (2, now, 0.5)
    assert kept.table == ReleaseCosts(WAITS, 0.5, 2).compute_return_costs(HOUR // 2)
    assert site.last.inputs[COSTS]["left_s"] == list(kept.table.left_s)


def test_a_plan_keeps_costs_once_its_release_is_near_and_anew_at_each_tick(site: Site) -> None:
    site.tick(predecessor() + stands(), now=END - 4 * HOUR)
    plan = site.last
    assert (plan.action, plan.inputs.keys() & {COSTS}) == (Action.PLAN, set())
    assert plan.release_at is not None
    shown = f"afterany:11(unfulfilled)?after:11+{plan.inputs['plan_min']}(unfulfilled)"
    for early_s in (FRESH_S + 60, FRESH_S - 60, 120):
        now = plan.release_at - early_s
        assert site.tick(predecessor() + stands(shown), now=now) == []
        kept = find(site, now)
        assert (kept is not None) is (early_s < FRESH_S)
        assert kept is None or kept.made_at == now


def test_costs_of_a_third_of_an_hour_ago_are_too_old(site: Site) -> None:
    now = release(site)
    assert find(site, now + FRESH_S) is not None
    assert find(site, now + FRESH_S + 1) is None


def test_no_other_link_gets_them(site: Site) -> None:
    now = release(site)
    assert find(site, now, index=1) is None
    assert find(site, now, index=3) is None


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_the_service_does_not_act_none_are_served(site: Site, mode: Mode) -> None:
    assert find(site, release(site), mode=mode) is None


def test_what_a_shadow_decision_forecast_is_not_kept(site: Site) -> None:
    site.mode = Mode.SHADOW
    now = END - HOUR // 2
    assert site.tick(predecessor() + stands(), now=now) == []
    assert (site.last.mode, site.last.action) == (Mode.SHADOW, Action.FREE)
    assert COSTS not in site.last.inputs
    assert find(site, now) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"style": Style.CONCURRENT},
        {"style": Style.SWITCH},
        {"style": None},
        {"presubmit": Presubmit.ALL},
        {"max_overlap_s": 0},
        {"max_returns": 0},
        {"max_returns": None},
        {"state": ChainState.PAUSED},
    ],
)
def test_a_chain_whose_links_give_nothing_back_gets_none(
    site: Site, fields: dict[str, Any]
) -> None:
    now = release(site)
    assert find(site, now) is not None
    with site.store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), **fields))
    assert find(site, now) is None


@pytest.mark.parametrize("returns", [0, 2])
def test_a_link_that_may_give_its_nodes_back_is_released_earlier(
    acting_store: Store, returns: int
) -> None:
    register(
        acting_store, style=Style.SEQUENTIAL, max_overlap_s=LIMIT, max_returns=returns, now=BEGAN
    )
    site = Site(acting_store, Foretells(tuple(range(300, 300 + 19 * 700, 700))))
    site.tick(predecessor() + stands(), now=END - 4 * HOUR)
    assert site.last.release_at is not None
    lead_s = END - site.last.release_at
    holds_s = 300 + 12 * 700  # two thirds of the waits are no longer
    assert lead_s > holds_s if returns else lead_s == holds_s


@pytest.mark.parametrize("most", [0, 1])
def test_an_admin_bounds_the_returns_that_costs_count_on(site: Site, most: int) -> None:
    bounded = Site(site.store, Foretells(), max_returns=most)
    kept = find(bounded, release(bounded))
    table = ReleaseCosts(WAITS, 0.5, most).compute_return_costs(HOUR // 2)
    assert (kept and kept.table) == (table if most else None)


@pytest.mark.parametrize("style", [Style.CONCURRENT, Style.WAIT])
def test_for_such_a_chain_none_are_kept(acting_store: Store, style: Style) -> None:
    register(acting_store, style=style, max_overlap_s=LIMIT, max_returns=2, now=BEGAN)
    site = Site(acting_store, Foretells())
    release(site)
    assert COSTS not in site.last.inputs


def test_a_forecast_without_a_distribution_keeps_none(site: Site) -> None:
    site.policy = Foretells(())
    release(site)
    assert COSTS not in site.last.inputs


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT"])
def test_where_the_predecessor_has_ended_none_are_served(site: Site, state: str) -> None:
    now = release(site)
    freed = stands("(null)", Reason="Priority", EligibleTime=str(now))
    site.tick(predecessor(State=state, EndTime=str(now + 30)) + freed, now=now + 60)
    assert find(site, now + 60) is None


def test_a_link_that_gave_its_nodes_back_gets_none_of_before(returned: Site) -> None:
    """It is left to its plan: nobody has made a forecast since."""
    returned.policy = Foretells()
    returned.tick(predecessor() + again(), now=EARLY + 90)
    assert find(returned, EARLY + 90) is None


def test_a_link_released_anew_has_a_return_less_left(returned: Site) -> None:
    """Slurm has not carried its plan out."""
    waits = tuple(3 * wait for wait in WAITS)
    returned.policy = Foretells(waits)
    assert returned.tick(predecessor() + again(), now=DUE + 300) == [("free", 21, "")]
    kept = find(returned, DUE + 300)
    assert kept is not None
    assert kept.table == ReleaseCosts(waits, 0.5, 1).compute_return_costs(END - DUE - 300)


def test_a_chain_of_mode_submit_keeps_none(acting_store: Store) -> None:
    register(acting_store, style=Style.SEQUENTIAL, mode=ChainMode.SUBMIT, max_returns=2, now=BEGAN)
    site = Site(acting_store, Foretells())
    site.tick(predecessor(), now=END - HOUR // 2)
    assert (site.last.action, COSTS in site.last.inputs) == (Action.SUBMIT, False)
