"""What Slurm is told of one standby, on queues written by hand."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.chains import link_sync as link_service
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import Effect
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Position
from mirage.domain.decision import Action
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers, reconcile_intentions
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import (
    CHAIN,
    NOW,
    WrittenCluster,
    comment,
    ended,
    find_last_decision,
    job,
    links,
    running,
    standby,
)
from tests.support.slurm.printed_jobs import reread_queue_job

SETTINGS = DecisionSettings(get_policy=Always, default_policy="always")


def tick(store: Store, cluster: WrittenCluster, settings: DecisionSettings = SETTINGS) -> None:
    queue = cluster.fetch_queue()
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), queue.taken_at)
        reconcile_intentions(tx, 1, queue.taken_at)
    provision_handovers(store, cluster, 1, Snapshot(queue=queue, nodes=()), settings)


def freed(store: Store, *shown: Job) -> WrittenCluster:
    """A cluster on which link 2 has been freed and still waits, with link 1 running."""
    cluster = WrittenCluster(running(1), standby(2))
    tick(store, cluster)
    cluster.moves.clear()
    cluster.jobs, cluster.at = list(shown), NOW + 60
    return cluster


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ("afterany:11(unfulfilled)", ""),
        ("afterok:7(unfulfilled),afterany:11(unfulfilled)", "afterok:7"),
    ],
)
def test_a_users_own_dependencies_stay(acting_store: Store, shown: str, told: str) -> None:
    cluster = WrittenCluster(running(1), standby(2, dependency=shown))
    tick(acting_store, cluster)
    assert cluster.moves == [("free", 12, told)]


def test_no_third_link_is_freed_while_two_run(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1), running(2), standby(3))
    tick(acting_store, cluster)
    assert cluster.moves == []
    row = find_last_decision(acting_store, 3)
    assert (row.action, row.reason) == (Action.WAIT, "link 1 still runs: one hand-over at a time")
    cluster.jobs[0] = ended(1, JobState.COMPLETED, NOW - 60, NOW + 30)
    cluster.at = NOW + 60
    tick(acting_store, cluster)
    assert cluster.moves == [("free", 13, "")]


def test_a_standby_with_a_singleton_is_left_where_it_is_and_that_is_told(
    acting_store: Store,
) -> None:
    own = "afterany:11(unfulfilled),singleton(unfulfilled)"
    cluster = WrittenCluster(running(1), standby(2, dependency=own))
    tick(acting_store, cluster)
    assert cluster.moves == []
    row = find_last_decision(acting_store, 2)
    assert (row.action, row.policy) == (Action.WAIT, "guard")
    assert "`singleton`" in row.reason


def test_beside_a_suspended_predecessor_nothing_is_freed(acting_store: Store) -> None:
    cluster = WrittenCluster(reread_queue_job(running(1), state=JobState.SUSPENDED), standby(2))
    tick(acting_store, cluster)
    assert cluster.moves == []
    row = find_last_decision(acting_store, 2)
    assert (row.action, row.policy) == (Action.WAIT, "guard")
    assert "suspended" in row.reason
    cluster.jobs[0] = running(1)
    cluster.at = NOW + 60
    tick(acting_store, cluster)
    assert cluster.moves == [("free", 12, "")]


@pytest.mark.parametrize("shown", ["afterany:11?afterok:7", "what is this"])
def test_a_list_that_cannot_be_taken_apart_is_left_alone_and_told(
    acting_store: Store, shown: str
) -> None:
    cluster = WrittenCluster(running(1), standby(2, dependency=shown))
    tick(acting_store, cluster)
    assert cluster.moves == []
    row = find_last_decision(acting_store, 2)
    assert row.effect is Effect.REFUSED
    assert "dependency" in row.error


def test_a_standby_that_the_queue_does_not_show_is_not_moved(acting_store: Store) -> None:
    """Its user's own dependencies are not known: freeing it would clear them."""
    cluster = WrittenCluster(running(1), standby(2, dependency="afterany:11,afterok:7"))
    with acting_store.begin() as tx:
        link_service.sync_links(tx, 1, cluster.jobs, NOW)
    cluster.jobs = [running(1)]
    tick(acting_store, cluster)
    assert cluster.moves == []


def test_a_pinned_standby_is_unpinned_when_freed(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    with acting_store.begin() as tx:
        link_service.sync_links(tx, 1, cluster.jobs, NOW)
    with acting_store.begin() as tx:
        chains.save_link(tx, 1, replace(links(acting_store)[2], position=Position.PINNED))
    queue = cluster.fetch_queue()
    provision_handovers(acting_store, cluster, 1, Snapshot(queue=queue, nodes=()), SETTINGS)
    assert cluster.moves == [("unpin", 12, "")]


def test_a_free_standby_is_held_again_when_its_predecessor_was_requeued(
    acting_store: Store,
) -> None:
    cluster = freed(
        acting_store, job(1, submit=NOW + 30), job(2, dependency="afterok:7(unfulfilled)")
    )
    tick(acting_store, cluster)
    assert cluster.moves == [("hold", 12, "afterany:11,afterok:7")]
    assert (links(acting_store)[2].position, links(acting_store)[2].freed_at) == (
        Position.HELD,
        None,
    )


def test_a_standby_that_its_user_freed_is_not_held(acting_store: Store) -> None:
    cluster = WrittenCluster(job(1), job(2))
    tick(acting_store, cluster)
    assert cluster.moves == []


def test_nothing_is_held_behind_a_job_that_slurm_has_forgotten(acting_store: Store) -> None:
    """Such a dependency counts as met: the update would free the standby."""
    cluster = freed(acting_store, job(1, submit=NOW + 30), job(2))
    cluster.errors["hold"] = ClusterUnavailable("no answer")
    tick(acting_store, cluster)
    cluster.jobs, cluster.at = [job(2)], NOW + 120
    tick(acting_store, cluster)
    assert [name for name, _, _ in cluster.moves] == ["hold"]


def test_a_refused_hold_is_not_repeated_at_every_tick(acting_store: Store) -> None:
    cluster = freed(acting_store, job(1, submit=NOW + 30), job(2))
    cluster.errors["hold"] = ClusterRefused("no")
    for _ in range(3):
        tick(acting_store, cluster)
        cluster.at += 60
    assert len(cluster.moves) == 1


def test_an_intention_for_a_standby_since_replaced_has_failed(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    cluster.errors["free"] = ClusterUnavailable("no answer")
    tick(acting_store, cluster)
    cluster.jobs = [running(1), job(2, job_id=JobId(70), submit=NOW + 10)]
    cluster.at += 60
    tick(acting_store, cluster)
    with acting_store.read() as tx:
        (row,) = decisions.list_decisions(tx, 1, chain_id=CHAIN)
    assert (row.effect, links(acting_store)[2].freed_at) == (Effect.FAILED, None)


def pair(number: int, **fields: Any) -> list[Job]:
    """A running link and its standby of a chain of their own."""
    chain_id, base = ChainId(f"chain{number:04}"), 100 * number
    first = running(1, job_id=JobId(base), comment=comment(1, chain_id), **fields)
    given = {"dependency": f"afterany:{base}", "comment": comment(2, chain_id), **fields}
    return [first, job(2, job_id=JobId(base + 1), **given)]


def within(node_h: float) -> DecisionSettings:
    return replace(SETTINGS, limits=Limits(account_overlap_node_h=node_h))


def test_what_one_tick_frees_counts_against_the_budget_of_that_tick(acting_store: Store) -> None:
    cluster = WrittenCluster(*pair(1), *pair(2), *pair(3), *pair(4, account="other"))
    tick(acting_store, cluster, within(2.0))
    assert [standby for _, standby, _ in cluster.moves] == [101, 201, 401]


def test_overlap_that_goes_on_counts_against_the_budget(acting_store: Store) -> None:
    """Both links of the first chain run: the second chain would double what the account spends."""
    first, second = pair(1)
    cluster = WrittenCluster(first, second)
    tick(acting_store, cluster)
    cluster.moves.clear()
    beside = running(2, job_id=second.job_id, comment=second.comment)
    cluster.jobs = [first, beside, *pair(2)]
    tick(acting_store, cluster, within(1.5))
    assert cluster.moves == []
    tick(acting_store, cluster, within(2.0))
    assert [standby for _, standby, _ in cluster.moves] == [201]


def test_overlap_of_the_last_day_counts_against_the_budget(acting_store: Store) -> None:
    first, second = pair(1)
    cluster = WrittenCluster(first, running(2, job_id=second.job_id, comment=second.comment))
    tick(acting_store, cluster)
    over = reread_queue_job(first, state=JobState.COMPLETED, end=NOW + 1800)
    cluster.jobs, cluster.at = [over, *cluster.jobs[1:], *pair(2, start=NOW + 1740)], NOW + 1800
    tick(acting_store, cluster, within(1.4))
    assert cluster.moves == []
    tick(acting_store, cluster, within(1.6))
    assert len(cluster.moves) == 1


def test_a_silent_slurm_is_not_asked_for_the_other_moves_of_the_tick(acting_store: Store) -> None:
    cluster = WrittenCluster(*pair(1), *pair(2))
    cluster.errors["free"] = ClusterUnavailable("no answer")
    tick(acting_store, cluster)
    assert len(cluster.moves) == 1
    del cluster.errors["free"]
    cluster.at += 60
    tick(acting_store, cluster)
    assert [standby for _, standby, _ in cluster.moves[1:]] == [101, 201]


@pytest.mark.parametrize(("eligible", "effect"), [(NOW + 30, "failed"), (NOW + 10, "done")])
def test_a_standby_is_freed_by_the_move_or_by_its_predecessors_end(
    acting_store: Store, eligible: int, effect: str
) -> None:
    """Nobody answered, the predecessor has ended since, and the standby still waits."""
    cluster = WrittenCluster(running(1), standby(2))
    cluster.errors["free"] = ClusterUnavailable("no answer")
    tick(acting_store, cluster)
    first = ended(1, JobState.FAILED, NOW - 60, NOW + 30)
    cluster.jobs, cluster.at = [first, job(2, eligible=eligible)], NOW + 60
    tick(acting_store, cluster)
    with acting_store.read() as tx:
        (row,) = decisions.list_decisions(tx, 1, chain_id=CHAIN)
    assert row.effect == effect
    assert links(acting_store)[2].freed_at == (NOW if effect == "done" else None)
