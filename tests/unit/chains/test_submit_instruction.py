"""Chains without standing jobs: decided like every other hand-over, carried out by the link."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync as link_service
from mirage.chains.explanations import describe_chain
from mirage.chains.submit_instruction import SubmitInstruction, get_submit_instruction
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import Effect
from mirage.database.operations import clusters
from mirage.database.schema import tables
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainMode, ChainState, Position
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.decision import Action, Mode
from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Snapshot
from mirage.errors import IllegalTransition
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers, reconcile_intentions
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    WrittenCluster,
    chain,
    ended,
    find_last_decision,
    job,
    links,
    register,
    running,
    standby,
)

TICK_S = 60
SETTINGS = DecisionSettings(get_policy=Always, default_policy="always")


@pytest.fixture
def submit_store(acting_store: Store) -> Store:
    register_three(acting_store)
    return acting_store


def register_three(store: Store, mode: ChainMode = ChainMode.SUBMIT, **more: Any) -> None:
    register(store, links=3, mode=mode, now=NOW - HOUR, **more)


def tick(
    store: Store, *jobs: Job, now: int = NOW, settings: DecisionSettings = SETTINGS
) -> WrittenCluster:
    cluster = WrittenCluster(*jobs, now=now)
    queue = cluster.fetch_queue()
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), now)
        reconcile_intentions(tx, 1, now)
        chain_service.advance_chains(tx, 1, now)
    provision_handovers(store, cluster, 1, Snapshot(queue=queue, nodes=()), settings)
    return cluster


def asked(store: Store, now: int = NOW) -> SubmitInstruction:
    with store.read() as tx:
        return get_submit_instruction(tx, 1, chains.get_chain(tx, 1, CHAIN), now, TICK_S)


def test_a_link_is_told_to_submit_once_that_is_decided(submit_store: Store) -> None:
    assert asked(submit_store) == SubmitInstruction(submit_now=False, ask_again_s=TICK_S), (
        "nothing runs yet"
    )
    cluster = tick(submit_store, running(1))
    assert (
        find_last_decision(submit_store).action,
        find_last_decision(submit_store).effect,
    ) == (Action.SUBMIT, Effect.INTENDED)
    assert cluster.moves == [], "it is left to the link"
    assert asked(submit_store) == SubmitInstruction(submit_now=True, ask_again_s=TICK_S)
    tick(submit_store, running(1), now=NOW + 60)
    assert find_last_decision(submit_store).at == NOW, "it is decided once"


def test_what_the_link_submitted_settles_it(submit_store: Store) -> None:
    tick(submit_store, running(1))
    tick(submit_store, running(1), job(2, submit=NOW + 40), now=NOW + 60)
    assert find_last_decision(submit_store).effect is Effect.DONE
    assert (links(submit_store)[2].position, links(submit_store)[2].freed_at) == (
        Position.FREE,
        NOW,
    )
    assert not asked(submit_store).submit_now


def test_what_the_link_put_behind_itself_is_not_the_move(submit_store: Store) -> None:
    tick(submit_store, running(1))
    tick(submit_store, running(1), standby(2, submit=NOW + 40), now=NOW + 60)
    assert decisions_of(submit_store)[0] == (Action.SUBMIT, Effect.FAILED)
    assert (Action.FREE, Effect.DONE) in decisions_of(submit_store), "it stands now, and is freed"


def decisions_of(store: Store) -> list[tuple[Action, Effect]]:
    with store.read() as tx:
        return [
            (row.action, row.effect) for row in decisions.list_decisions(tx, 1, chain_id=CHAIN)
        ][::-1]


def test_nobody_submits_in_shadow(submit_store: Store) -> None:
    with submit_store.begin() as tx:
        clusters.set_mode(tx, 1, Mode.SHADOW)
    tick(submit_store, running(1))
    assert (
        find_last_decision(submit_store).action,
        find_last_decision(submit_store).effect,
    ) == (Action.SUBMIT, Effect.NONE)
    assert not asked(submit_store).submit_now


def test_links_that_never_overlap_are_submitted_by_their_predecessors_end_alone(
    submit_store: Store,
) -> None:
    register_three(submit_store, max_overlap_s=0)
    tick(submit_store, running(1))
    assert find_last_decision(submit_store).action is Action.WAIT
    assert not asked(submit_store).submit_now


@pytest.mark.parametrize(("left_s", "again_s"), [(3600, 180), (600, TICK_S), (40 * HOUR, 600)])
def test_a_link_asks_again_in_good_time(submit_store: Store, left_s: int, again_s: int) -> None:
    register_three(submit_store, max_overlap_s=0)
    tick(submit_store, running(1, start=NOW - HOUR + left_s - 60, time_limit_s=HOUR + 60))
    assert asked(submit_store) == SubmitInstruction(submit_now=False, ask_again_s=again_s)


def test_the_last_link_has_no_next_one(submit_store: Store) -> None:
    tick(submit_store, ended(1, JobState.TIMEOUT, NOW - 2 * HOUR, NOW - HOUR), running(3))
    assert not asked(submit_store).submit_now


def test_a_paused_chain_submits_nothing(submit_store: Store) -> None:
    tick(submit_store, running(1))
    with submit_store.begin() as tx:
        chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
    assert not asked(submit_store).submit_now


def test_a_chain_with_standbys_has_nothing_to_ask(submit_store: Store) -> None:
    register_three(submit_store, ChainMode.STANDBY)
    with pytest.raises(IllegalTransition, match="mode standby"):
        asked(submit_store)


def test_what_a_service_of_before_submitted_is_not_submitted_again(submit_store: Store) -> None:
    """Such a service submitted links itself; the queue does not show the job yet."""
    tick(submit_store, running(1))
    with submit_store.begin() as tx:
        tx.execute(update(tables.decisions).values(submitted_at=NOW))
    assert not asked(submit_store).submit_now
    tick(submit_store, running(1), job(2, submit=NOW + 2), now=NOW + 60)
    assert (
        find_last_decision(submit_store).effect,
        links(submit_store)[2].freed_at,
    ) == (Effect.DONE, NOW)


def test_a_refusal_told_to_a_service_of_before_is_no_risk_of_today(submit_store: Store) -> None:
    """The running link submits: at most a risk of an earlier release is read, and goes."""
    tick(submit_store, running(1))
    risk = ChainRisk(of=Risk.REFUSED, link=2, detail="Job violates accounting/QOS policy")
    with submit_store.begin() as tx:
        tx.execute(update(tables.decisions).values(effect="refused", error=risk.detail))
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), at_risk=risk))
    assert describe_chain(chain(submit_store)) == f"at risk: Slurm refuses link 2: {risk.detail}"
    tick(submit_store, running(1), now=NOW + 60)
    assert chain(submit_store).at_risk is None


def test_a_link_that_nobody_submitted_in_time_failed(submit_store: Store) -> None:
    tick(submit_store, running(1))
    tick(submit_store, ended(1, JobState.TIMEOUT, NOW - HOUR, NOW + 30), now=NOW + 60)
    assert find_last_decision(submit_store).effect is Effect.FAILED
