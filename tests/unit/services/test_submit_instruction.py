"""Chains without standing jobs: decided like every other hand-over, carried out by the link."""

from collections.abc import Callable
from typing import Any

import pytest

from mirage.domain.chain import ChainMode, ChainState, Position
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.decision import Action, Mode
from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable, IllegalTransition
from mirage.ports import NextLink
from mirage.services.chains import lifecycle as chain_service
from mirage.services.chains import link_sync as link_service
from mirage.services.chains.explanations import describe_chain
from mirage.services.chains.submit_instruction import SubmitInstruction, get_submit_instruction
from mirage.services.provision.decision_context import Rules
from mirage.services.provision.provision_tick import provision_handovers, reconcile_intentions
from mirage.store.chains import chains, decisions
from mirage.store.chains.decisions import Effect
from mirage.store.database.engine import Store
from mirage.store.operations import clusters
from tests.support.services.scene import Always
from tests.support.services.slurm_jobs import (
    ALICE,
    CHAIN,
    HOUR,
    NOW,
    Written,
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
RULES = Rules(policy=Always, default="always")


@pytest.fixture
def submit_store(acting_store: Store) -> Store:
    register_three(acting_store)
    return acting_store


def register_three(store: Store, mode: ChainMode = ChainMode.SUBMIT, **more: Any) -> None:
    register(store, links=3, mode=mode, now=NOW - HOUR, **more)


def tick(store: Store, *jobs: Job, now: int = NOW, rules: Rules = RULES) -> Written:
    cluster = Written(*jobs, now=now)
    queue = cluster.fetch_queue()
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), now)
        reconcile_intentions(tx, 1, now)
        chain_service.advance_chains(tx, 1, now)
    provision_handovers(store, cluster, 1, Snapshot(queue=queue, nodes=()), rules)
    return cluster


def asked(store: Store, now: int = NOW) -> SubmitInstruction:
    with store.read() as tx:
        return get_submit_instruction(tx, 1, chains.get_chain(tx, 1, CHAIN), now, TICK_S)


def submitting(answer: Callable[[], bool], heard: list[NextLink]) -> Rules:
    def submit(link: NextLink) -> bool:
        heard.append(link)
        return answer()

    return Rules(policy=Always, default="always", submit=submit)


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


def test_a_service_with_a_way_of_its_own_submits_by_itself(submit_store: Store) -> None:
    heard: list[NextLink] = []
    tick(submit_store, running(1), rules=submitting(lambda: True, heard))
    job_id = running(1).job_id
    expected = NextLink(chain_id=CHAIN, index=2, uid=ALICE, user="alice", predecessor=job_id)
    assert heard == [expected]
    assert not asked(submit_store).submit_now, "the link need not do it as well"
    tick(submit_store, running(1), now=NOW + 60, rules=submitting(lambda: True, heard))
    assert heard == [expected], "not twice, while it is on its way"
    tick(submit_store, running(1), job(2, submit=NOW + 2), now=NOW + 120)
    assert (
        find_last_decision(submit_store).effect,
        links(submit_store)[2].freed_at,
    ) == (Effect.DONE, NOW)


def test_a_submit_limit_is_at_risk_and_tried_again_when_there_may_be_room(
    submit_store: Store,
) -> None:
    said = "Job violates accounting/QOS policy (job submit limit)"

    def refuse() -> bool:
        raise ClusterRefused(said)

    heard: list[NextLink] = []
    rules = submitting(refuse, heard)
    tick(submit_store, running(1), rules=rules)
    tick(submit_store, running(1), now=NOW + 60, rules=rules)
    assert len(heard) == 1
    assert chain(submit_store).at_risk == ChainRisk(of=Risk.REFUSED, link=2, detail=said)
    assert describe_chain(chain(submit_store)) == f"at risk: Slurm refuses link 2: {said}"
    tick(submit_store, running(1), now=NOW + 901, rules=rules)
    assert len(heard) == 2
    tick(submit_store, running(1), job(2, submit=NOW + 950), now=NOW + 960, rules=rules)
    assert chain(submit_store).at_risk is None


def test_a_silent_way_is_not_asked_again_for_the_same_link(submit_store: Store) -> None:
    def silent() -> bool:
        raise ClusterUnavailable("no answer")

    heard: list[NextLink] = []
    tick(submit_store, running(1), rules=submitting(silent, heard))
    assert find_last_decision(submit_store).effect is Effect.INTENDED
    assert asked(submit_store).submit_now, "the link may do it"
    over = ended(1, JobState.TIMEOUT, NOW - HOUR, NOW + 30)
    tick(submit_store, over, now=NOW + 60, rules=submitting(silent, heard))
    assert (len(heard), find_last_decision(submit_store).effect) == (1, Effect.FAILED)
