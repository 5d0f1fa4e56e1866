"""What an hour of overlap costs a chain by its style: here and in the links' own rule."""

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mirage.chains import overlap_price
from mirage.chains.lifecycle import Registration, register_chain
from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId, Link, Style
from mirage.domain.decision import PolicyView, Waits
from mirage.domain.snapshot import Queue
from mirage.policies.rules import switch_price
from mirage.policies.rules.lead_rules import Quantile
from mirage.policies.rules.switch_price import SwitchQuantile
from mirage.provision.chain_price import price_chain
from tests.support.chains import make_chain, make_link
from tests.support.paths import PLUGIN
from tests.support.provision import slurm_jobs

HOUR = 3600
CHAIN = ChainId("a" * 20)


def make_switch_chain(**fields: Any) -> Chain:
    return make_chain(CHAIN, **{"style": Style.SWITCH, **fields})


def make_link_in_hours(
    index: int, start: int | None = None, end: int | None = None, hours: int = 24
) -> Link:
    return make_link(CHAIN, index, index, start=start, end=end, time_limit_s=hours * HOUR)


def waited(*seconds: int) -> Waits:
    count = len(seconds)
    return Waits(
        start=np.arange(count, dtype=np.int64),
        wait_s=np.array(seconds, dtype=np.int64),
        nodes=np.ones(count, dtype=np.int64),
        time_limit_s=np.full(count, 24 * HOUR, dtype=np.int64),
    )


def price(*seconds: int, hours: int = 24, links: tuple[Link, ...] = ()) -> float:
    found = price_chain(
        make_switch_chain(), links, waited(*seconds), make_link_in_hours(1, 0, hours=hours)
    )
    return found.overlap_price


def test_it_is_the_start_up_and_the_expected_interruption_over_the_time_limit() -> None:
    assert price(hours=5) == pytest.approx(600 / (5 * HOUR), abs=5e-4)
    assert price(hours=240) == switch_price.LEAST_SWITCH_PRICE == 0.01
    assert price(hours=1) == switch_price.MOST_SWITCH_PRICE == 0.1


def test_the_start_up_is_measured_from_the_chains_own_hand_overs() -> None:
    # Link 2 begins 20 min before link 1 ends, link 3 after link 2: no word of it.
    links = (
        make_link_in_hours(1, 0, 9000),
        make_link_in_hours(2, 7800, 20_000),
        make_link_in_hours(3, 21_000),
    )
    assert overlap_price.measure_start_up_s(links) == 1200
    assert price(hours=10, links=links) == pytest.approx(1200 / (10 * HOUR), abs=5e-4)
    assert overlap_price.measure_start_up_s(links[1:]) is None


@pytest.mark.parametrize(
    ("start", "end"),
    [(4 * HOUR, 4 * HOUR + 60), (6 * HOUR, 24 * HOUR), (HOUR, None)],
    ids=["died after a minute", "ended with its predecessor", "predecessor never answered"],
)
def test_an_early_link_that_did_not_take_over_soon_says_nothing_of_its_start_up(
    start: int, end: int | None
) -> None:
    links = (make_link_in_hours(1, 0, 24 * HOUR), make_link_in_hours(2, start, end))
    assert overlap_price.measure_start_up_s(links) is None


def test_links_and_the_service_have_one_longest_start_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    own = importlib.import_module("mirage_slurm.planner.lead_rules")
    assert own.MOST_START_UP_S == overlap_price.MOST_START_UP_S


def register(store: Store, **fields: Any) -> Chain:
    told: dict[str, Any] = {"style": Style.SWITCH, **fields}
    new = Registration(chain_id=slurm_jobs.CHAIN, links=3, **told)
    with store.begin() as tx:
        return register_chain(tx, 1, new, uid=slurm_jobs.ALICE, user="alice", now=slurm_jobs.NOW)


def test_the_same_registration_again_keeps_the_worked_out_price(lab_store: Store) -> None:
    worked = replace(register(lab_store), overlap_price=0.02, start_up_s=60, missed_s=0)
    with lab_store.begin() as tx:
        chains.save_price(tx, 1, worked)
    assert register(lab_store) == worked == slurm_jobs.chain(lab_store)
    assert slurm_jobs.events(lab_store) == ["registered"]
    assert register(lab_store, overlap_price=0.3).overlap_price == 0.3
    assert register(lab_store).overlap_price == switch_price.MOST_SWITCH_PRICE


@pytest.mark.parametrize("told", [{"overlap_price": 0.3}, {"style": Style.WAIT}])
def test_a_worked_out_price_comes_too_late_after_a_registration(
    lab_store: Store, told: dict[str, Any]
) -> None:
    worked = replace(register(lab_store), overlap_price=0.02)
    registered = register(lab_store, **told)
    with lab_store.begin() as tx:
        chains.save_price(tx, 1, worked)
    assert slurm_jobs.chain(lab_store) == registered


@pytest.mark.parametrize("fields", [{"asked_price": 0.3, "overlap_price": 0.3}, {"style": None}])
def test_a_price_that_was_given_wins_and_other_styles_keep_theirs(fields: dict[str, Any]) -> None:
    given = make_switch_chain(**fields)
    assert price_chain(given, (), waited(60), make_link_in_hours(1)) == given


def test_it_is_said_where_a_price_comes_from() -> None:
    asked = make_switch_chain(asked_price=0.3, overlap_price=0.3)
    assert overlap_price.describe_price(asked) == "as its user asked"
    assert "the default" in overlap_price.describe_price(make_switch_chain(style=Style.WAIT))
    worked = price_chain(
        make_switch_chain(), (), waited(*range(0, 60 * 100, 60)), make_link_in_hours(1)
    )
    assert "10 min of start-up (assumed)" in overlap_price.describe_price(worked)


def test_max_overlap_binds_a_switch_chain_only_where_its_user_gave_it() -> None:
    assert make_switch_chain().get_allowed_overlap_s(make_link_in_hours(1)) == 24 * HOUR
    assert (
        make_switch_chain(max_overlap_s=HOUR).get_allowed_overlap_s(make_link_in_hours(1)) == HOUR
    )
    assert (
        make_switch_chain(style=Style.WAIT).get_allowed_overlap_s(make_link_in_hours(1)) == 4 * HOUR
    )


@pytest.mark.parametrize("hours", [2, 10, 24, 100])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("start_up_s", [None, 60, 1800])
def test_links_work_out_the_same_price(
    monkeypatch: pytest.MonkeyPatch, hours: int, seed: int, start_up_s: int | None
) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    own = importlib.import_module("mirage_slurm.planner.lead_rules")
    seconds = np.random.default_rng(seed).integers(0, 30 * HOUR, size=150).tolist()
    limit_s = hours * HOUR
    rows = [(1, limit_s, wait) for wait in seconds]
    alike = own.forecast_like_jobs(rows, 1, limit_s, own.PRICE, own.LAST_SWITCHING)
    known_s = own.START_UP_S if start_up_s is None else start_up_s
    theirs = own.choose_lead(alike, limit_s, known_s, own.Wishes("switch")).price
    jobs = waited(*seconds)
    jobs.time_limit_s[:] = limit_s
    links = (
        ()
        if start_up_s is None
        else (make_link_in_hours(1, 0, 9000), make_link_in_hours(2, 9000 - start_up_s))
    )
    ours = price_chain(
        make_switch_chain(), links, jobs, make_link_in_hours(1, hours=hours)
    ).overlap_price
    assert ours == pytest.approx(theirs, abs=5e-4)


def test_the_rule_of_the_report_frees_at_the_price_of_a_new_switch_chain() -> None:
    jobs = waited(*range(0, 30 * HOUR, 600))
    price = price_chain(make_switch_chain(), (), jobs, make_link_in_hours(1)).overlap_price
    view = PolicyView(
        now=0,
        predecessor_end=24 * HOUR,
        nodes=1,
        time_limit_s=24 * HOUR,
        overlap_price=0.5,
        partition="gpu",
        jobs=jobs,
        handovers=waited(),
        queue=Queue.from_jobs(0, ()),
        free_nodes=0,
    )
    asked = Quantile().decide(replace(view, overlap_price=price))
    switch = SwitchQuantile().decide(view)
    assert switch.policy == "switch-quantile"
    assert switch.release_at == pytest.approx(asked.release_at, abs=120)
    assert switch.release_at != Quantile().decide(view).release_at
