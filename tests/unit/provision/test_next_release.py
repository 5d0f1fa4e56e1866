"""What a running link is told to plan for its next one, from text as Slurm prints it."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainMode, Presubmit, Style
from mirage.domain.decision import Mode
from mirage.provision.control.limits import Limits
from mirage.provision.next_release import NextRelease, plan_next_release
from mirage.provision.polling.live_ingest import ingest_queue
from tests.integration.provision.test_release_planning import (
    END,
    HELD,
    START,
    runs,
    shown_plan,
    stands,
)
from tests.support.provision.printed import follow_queue, print_row
from tests.support.provision.slurm_jobs import CHAIN, HOUR, NOW

TICK_S = 60
WAITED_H = 2.0
PLAIN = "(null)"


def others(waited_h: float = WAITED_H) -> str:
    """Thirty jobs of others, that had waited so long each."""
    since = NOW - 2 * HOUR - round(waited_h * HOUR)
    return "".join(
        print_row(
            JobID=str(500 + i),
            UserName="bob",
            UserID="1002",
            State="RUNNING",
            Reason="None",
            SubmitTime=str(since - i),
            EligibleTime=str(since - i),
            StartTime=str(NOW - 2 * HOUR - i),
            EndTime=str(NOW + 22 * HOUR),
            TimeLimit="1-00:00:00",
            Comment="",
        )
        for i in range(30)
    )


def shows(store: Store, *rows: str, now: int = NOW, waited_h: float = WAITED_H) -> None:
    queue = follow_queue(store, others(waited_h) + "".join(rows), now)
    with store.begin() as tx:
        ingest_queue(tx, 1, queue, None)


def asked(
    store: Store, index: int | None = None, now: int = NOW, *, partial: bool = False, **limits: Any
) -> NextRelease:
    with store.read() as tx:
        return plan_next_release(
            tx,
            1,
            chains.get_chain(tx, 1, CHAIN),
            index=index,
            default="auto",
            limits=Limits(**limits),
            now=now,
            tick_s=TICK_S,
            partial=partial,
        )


@pytest.mark.parametrize("index", [None, 1])
def test_the_lead_is_what_like_jobs_waited(acting_chain_store: Store, index: int | None) -> None:
    shows(acting_chain_store, runs())
    told = asked(acting_chain_store, index)
    assert told.mode is Mode.ACT
    assert told.lead_s == WAITED_H * HOUR
    assert told.ask_again_s == 6 * HOUR


@pytest.mark.parametrize(("policy", "rule"), [("auto", "quantile"), ("average", "average")])
def test_the_answer_names_the_rule_that_decided(
    acting_chain_store: Store, policy: str, rule: str
) -> None:
    with acting_chain_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), policy=policy))
    shows(acting_chain_store, runs())
    assert asked(acting_chain_store).policy == rule


@pytest.mark.parametrize(("returns", "lead_s"), [(None, None), (0, None), (2, 4 * HOUR)])
def test_where_the_next_link_may_give_its_nodes_back_it_is_released_earlier(
    acting_chain_store: Store, returns: int | None, lead_s: int | None
) -> None:
    """Eleven of the last twenty jobs waited for four hours, and none of the twenty before."""
    times = {"EligibleTime": str(NOW - 5 * HOUR), "SubmitTime": str(NOW - 5 * HOUR)}
    times |= {"StartTime": str(NOW - HOUR), "EndTime": str(NOW + 9), "TimeLimit": "1-00:00:00"}
    late = {"UserName": "bob", "UserID": "1002", "State": "RUNNING", "Reason": "None"}
    rows = [print_row(JobID=str(700 + i), Comment="", **late, **times) for i in range(11)]
    newest = dict.fromkeys(("EligibleTime", "SubmitTime", "StartTime"), str(NOW - HOUR // 2))
    rows.append(print_row(JobID="720", Comment="", **late, **times | newest))
    with acting_chain_store.begin() as tx:
        chain = replace(chains.get_chain(tx, 1, CHAIN), style=Style.SEQUENTIAL)
        chains.save_chain(tx, 1, replace(chain, max_returns=returns))
    shows(acting_chain_store, runs(), *rows, waited_h=0)
    assert asked(acting_chain_store).lead_s == lead_s
    assert asked(acting_chain_store, max_returns=0).lead_s is None


def test_a_link_that_no_look_has_shown_yet_is_like_the_one_before_it(
    acting_chain_store: Store,
) -> None:
    over = runs(State="COMPLETED", EndTime=str(NOW - 10))
    shows(acting_chain_store, over, stands(PLAIN, EligibleTime=str(NOW - 10), Reason="Priority"))
    assert asked(acting_chain_store, 2).lead_s == WAITED_H * HOUR
    assert asked(acting_chain_store, 3).lead_s == WAITED_H * HOUR


def test_a_link_that_starts_by_its_predecessors_end_plans_though_that_is_not_seen(
    acting_chain_store: Store,
) -> None:
    shows(acting_chain_store, runs(), stands(HELD))
    assert asked(acting_chain_store, 2, END + 5).lead_s == WAITED_H * HOUR


def test_a_link_that_may_run_beside_its_predecessor_plans_nothing(
    acting_chain_store: Store,
) -> None:
    shows(acting_chain_store, runs(), stands(shown_plan(600)))
    assert asked(acting_chain_store, 2).lead_s is None
    began = runs(2, start=NOW - 60, SubmitTime=str(START), Dependency=PLAIN)
    shows(acting_chain_store, runs(), began, now=NOW + 60)
    assert asked(acting_chain_store, 2).lead_s is None


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_the_service_does_not_act_nothing_is_planned(
    acting_chain_store: Store, mode: Mode
) -> None:
    shows(acting_chain_store, runs())
    with acting_chain_store.begin() as tx:
        clusters.set_mode(tx, 1, mode)
    told = asked(acting_chain_store)
    assert (told.mode, told.lead_s) == (mode, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_overlap_s": 0},
        {"policy": "reactive"},
        {"presubmit": Presubmit.ALL},
        {"links_planned": 1},
        {"mode": ChainMode.SUBMIT},
    ],
)
def test_such_chains_have_no_plan(acting_chain_store: Store, fields: dict[str, Any]) -> None:
    with acting_chain_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), **fields))
    shows(acting_chain_store, runs())
    assert asked(acting_chain_store).lead_s is None


def waits(reason: str, **cells: str) -> str:
    """A job of somebody else's in the queue."""
    shown = {"UserName": "bob", "UserID": "1002", "State": "PENDING", "Reason": reason}
    return print_row(JobID="900", **shown, **cells)


@pytest.mark.parametrize("style", [Style.SWITCH, Style.SERVE])
@pytest.mark.parametrize(
    ("fields", "began_s", "lead_s"),
    [
        ({}, 600, 24 * HOUR - 8640),  # a tenth of the limit
        ({"min_runtime_s": 6 * HOUR}, 600, 18 * HOUR),
        ({"min_runtime_s": 25 * HOUR}, 600, None),
    ],
)
def test_a_link_that_will_be_asked_to_end_works_for_its_floor_first(
    acting_chain_store: Store,
    style: Style,
    fields: dict[str, Any],
    began_s: int,
    lead_s: int | None,
) -> None:
    """Whatever others have waited; start-up of ten minutes is none of its work."""
    with acting_chain_store.begin() as tx:
        chain = replace(chains.get_chain(tx, 1, CHAIN), style=style, overlap_price=0.01)
        chains.save_chain(tx, 1, replace(chain, max_overlap_s=48 * HOUR, **fields))
    shows(acting_chain_store, runs(), waits("Priority"), waited_h=30.0)
    told = asked(acting_chain_store, max_lead_s=48 * HOUR).lead_s
    assert told == (None if lead_s is None else lead_s - began_s)


@pytest.mark.parametrize(
    ("style", "rows", "is_planned"),
    [
        (Style.SWITCH, [], False),
        (Style.SWITCH, ["Dependency"], False),
        (Style.SWITCH, ["QOSMaxJobsPerUserLimit"], False),
        (Style.SWITCH, ["Resources"], True),
        (Style.SERVE, [], False),
        (Style.SEQUENTIAL, [], True),
    ],
)
def test_while_nobody_waits_a_link_that_would_be_asked_to_end_plans_nothing(
    acting_chain_store: Store, style: Style, rows: list[str], is_planned: bool
) -> None:
    with acting_chain_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), style=style))
    shows(acting_chain_store, runs(), *map(waits, rows))
    assert (asked(acting_chain_store).lead_s is not None) is is_planned
    assert asked(acting_chain_store, now=NOW + 601).lead_s is not None, "an old look says nothing"


@pytest.mark.parametrize("partition", ["gpu", "long", "other"])
def test_jobs_that_wait_in_any_partition_of_a_link_wait_beside_it(
    acting_chain_store: Store, partition: str
) -> None:
    """It has just begun, and no look has shown in which one."""
    with acting_chain_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), style=Style.SWITCH))
    over = runs(State="COMPLETED", EndTime=str(NOW - 10))
    named = stands(PLAIN, EligibleTime=str(NOW - 10), Reason="Dependency", Partition="long,gpu")
    shows(acting_chain_store, over, named, waits("Resources", Partition=partition))
    assert (asked(acting_chain_store, 2).lead_s is not None) is (partition != "other")


def test_where_jobs_are_hidden_nobody_can_say_that_none_waits(acting_chain_store: Store) -> None:
    with acting_chain_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), style=Style.SWITCH))
    shows(acting_chain_store, runs())
    assert asked(acting_chain_store, partial=True).lead_s is not None


def test_nobody_knows_the_link_yet_so_it_asks_after_the_next_look(
    acting_chain_store: Store,
) -> None:
    told = asked(acting_chain_store, 1)
    assert (told.mode, told.lead_s, told.ask_again_s) == (Mode.ACT, None, TICK_S)


def test_the_lead_keeps_to_the_bounds_of_a_release(acting_chain_store: Store) -> None:
    shows(acting_chain_store, runs())
    assert asked(acting_chain_store, max_lead_s=HOUR).lead_s == HOUR
    assert asked(acting_chain_store, account_overlap_node_h=0.0).lead_s is None


@pytest.mark.parametrize(
    ("shown", "lead_s"),
    [
        (stands(shown_plan(1200)), 4 * HOUR),
        (stands(HELD), None),
        (stands(PLAIN, EligibleTime=str(NOW - 5)), None),
        (stands(shown_plan(1200), Comment=f"mirage:lead=4:00:00 mirage:{CHAIN}:2"), None),
    ],
)
def test_what_stands_is_told_and_its_owners_plan_is_not(
    acting_chain_store: Store, shown: str, lead_s: int | None
) -> None:
    shows(acting_chain_store, runs(), shown)
    assert asked(acting_chain_store).lead_s == lead_s
