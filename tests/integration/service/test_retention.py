"""The worker takes away each hour what is old: what a chain left, and later what admins did."""

from dataclasses import replace

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync
from mirage.chains.chain_ownership import FOREIGN
from mirage.chains.lifecycle import Registration
from mirage.chains.notices.notices import Channel, NoticeRecorder
from mirage.config.settings import QuotaSettings, RetentionSettings
from mirage.database.access import idempotency
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.learning import learning_runs
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState
from mirage.domain.decision import Mode
from mirage.provision.control import kill_switch, limit_overrides, modes
from mirage.provision.control.kill_switch import Way
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.service import retention
from mirage.service.retention import Retention
from mirage.service.worker import Worker
from mirage.web.identity.quotas import Quotas
from tests.support.provision.scene import Always, Scene
from tests.support.provision.slurm_jobs import CHAIN, NOW, WrittenCluster, running, standby

DAY = 86400


def all_events(store: Store) -> list[str]:
    """Oldest first."""
    with store.read() as tx:
        return [entry.event for entry in audit.list_entries(tx, 1, limit=500)][::-1]


def ask(scene: Scene, target: ChainState, actor: str = "alice") -> None:
    with scene.store.begin() as tx:
        found = chains.get_chain(tx, 1, CHAIN)
        now = scene.cluster.read_clock()
        chain_service.request_state(tx, scene.cluster_id, found, target, now=now, actor=actor)
    scene.tick()


def test_all_that_a_chains_life_leaves_goes_and_admins_acts_stay(store: Store) -> None:
    scene = Scene(store)
    scene.tick()
    with store.begin() as tx:
        owner = chains.get_chain(tx, 1, CHAIN)
        new = Registration(chain_id=CHAIN, links=3)
        now = scene.cluster.read_clock()
        chain_service.register_chain(tx, 1, new, uid=owner.uid, user=owner.user, now=now)
        modes.set_mode(tx, 1, Mode.ACT, "", now=now, actor="root")
        limit_overrides.set_limit_override(tx, 1, "max_touches", 8, now=now, actor="root")
        entry = AuditEntry(at=now, actor="mirage", event=FOREIGN, chain_id=CHAIN)
        audit.write_entry(tx, 1, entry)
    ask(scene, ChainState.PAUSED, owner.user)
    ask(scene, ChainState.ACTIVE, owner.user)
    scene.tick()
    ask(scene, ChainState.CANCELLED, "root")
    scene.tick()
    before = all_events(store)
    assert {"free: done", "suspend", "resume", "cancel", "asked: paused"} <= set(before)
    retention_times = Retention(audit_days=10, audit_admin_days=100)
    retention.prune_expired(store, 1, scene.cluster.read_clock() + 9 * DAY, retention_times)
    assert all_events(store) == before
    retention.prune_expired(store, 1, scene.cluster.read_clock() + 11 * DAY, retention_times)
    others = ["adopted"]  # of the chain beside it, which lives
    acts = ["mode set", "limit set", FOREIGN, "asked: cancelled"]
    assert all_events(store) == others + acts
    retention.prune_expired(store, 1, scene.cluster.read_clock() + 101 * DAY, retention_times)
    assert all_events(store) == others


@pytest.mark.parametrize("event", [link_sync.HOLD_GONE, link_sync.TAKEN_UP, link_sync.FORGOTTEN])
def test_what_users_can_cause_with_slurm_alone_is_routine(store: Store, event: str) -> None:
    with store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        audit.write_entry(tx, 1, AuditEntry(at=NOW, actor="mirage", event=event, chain_id=CHAIN))
    retention.prune_expired(
        store, 1, NOW + 11 * DAY, Retention(audit_days=10, audit_admin_days=100)
    )
    assert all_events(store) == []


def test_the_worker_does_it_each_hour(sqlite_store: Store) -> None:
    store, cluster = sqlite_store, WrittenCluster(running(1), standby(2))
    with store.begin() as tx:
        assert clusters.ensure_cluster(tx, "lab") == 1
    retention_times = Retention(audit_days=1, audit_admin_days=1, empty_chains_days=2)
    worker = Worker(
        store,
        cluster,
        1,
        settings=DecisionSettings(get_policy=Always, default_policy="always"),
        retention=retention_times,
    )
    worker.run_tick()
    with store.begin() as tx:
        kill_switch.pull_switch(tx, 1, Way.REST, now=NOW, actor="root")
        idempotency.claim_key(tx, 1, 1001, "key", fingerprint="x", now=NOW)
        lost = Registration(chain_id=ChainId("lostchain1"), links=2)
        chain_service.register_chain(tx, 1, lost, uid=1001, user="alice", now=NOW)
    for passed, known in ((60, 2), (1.5 * DAY, 2), (1.5 * DAY, 2), (2.5 * DAY, 1)):
        cluster.at = NOW + int(passed)
        worker.run_tick()
        with store.read() as tx:
            assert len(chains.list_chains(tx, 1)) == known, passed
    assert kill_switch.PULLED not in all_events(store)
    assert "chain failed" in all_events(store), "it is of this week"
    with store.read() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM idempotency_keys").scalar() == 0
        assert chains.get_chain(tx, 1, CHAIN).state is ChainState.ACTIVE


def test_a_chain_that_waits_for_its_first_look_is_not_taken_away(store: Store) -> None:
    with store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        new = Registration(chain_id=CHAIN, links=2)
        chain_service.register_chain(tx, 1, new, uid=1001, user="alice", now=NOW)
    retention.prune_expired(store, 1, NOW + 1000 * DAY, Retention())
    with store.read() as tx:
        assert chains.get_chain(tx, 1, CHAIN).state is ChainState.ACTIVE


def test_old_runs_of_learning_go_and_the_newest_training_stays(store: Store) -> None:
    """By it the next training is due."""
    with store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        trained = learning_runs.begin_run(tx, 1, at=NOW, reason="no model")
        learning_runs.finish_run(tx, trained, at=NOW, state=RunState.DONE, document={})
        for night in range(1, 5):
            run = learning_runs.begin_run(tx, 1, at=NOW + night * DAY, reason="")
            state = RunState.NOTHING_TO_DO
            learning_runs.finish_run(tx, run, at=NOW + night * DAY, state=state, document={})
        begun = learning_runs.begin_run(tx, 1, at=NOW + 5 * DAY, reason="no model")
    times = Retention(audit_days=10, audit_admin_days=100)

    def list_nights(day: float) -> list[int]:
        retention.prune_expired(store, 1, NOW + round(day * DAY), times)
        with store.read() as tx:
            runs = learning_runs.read_runs(tx, 1, most=9)
        return [(run.begun_at - NOW) // DAY for run in runs]

    assert list_nights(10.5) == [5, 4, 3, 2, 1, 0]
    assert list_nights(12.5) == [5, 4, 3, 0]
    assert list_nights(30) == [5, 0], "a run that goes on stays, too"
    with store.begin() as tx:
        learning_runs.finish_run(tx, begun, at=NOW + 5 * DAY, state=RunState.DONE, document={})
    assert list_nights(30) == [5]


def test_the_defaults_are_those_of_the_configuration() -> None:
    assert Retention(**RetentionSettings().model_dump()) == Retention()
    assert Quotas(**QuotaSettings().model_dump()) == Quotas()


@pytest.mark.parametrize("target", [ChainState.PAUSED, ChainState.CANCELLED])
def test_nobody_is_told_again_of_what_is_so_already(store: Store, target: ChainState) -> None:
    """Whoever asks at each tick sends one mail."""
    cluster = WrittenCluster(running(1), standby(2))
    with store.begin() as tx:
        clusters.set_mode(tx, clusters.ensure_cluster(tx, "lab"), Mode.ACT)
    recorder = NoticeRecorder(channels=(Channel.OWNER,))
    settings = DecisionSettings(get_policy=Always, default_policy="always", limits=Limits())
    worker = Worker(store, cluster, 1, settings=settings, notices=recorder)
    worker.run_tick()
    notes = set()
    for actor in ("alice", "alice", "root", "alice"):
        with store.begin() as tx:
            found = chains.get_chain(tx, 1, CHAIN)
            now = cluster.read_clock()
            moved = chain_service.request_state(tx, 1, found, target, now=now, actor=actor)
            notes.add(replace(moved, created_at=0))
        cluster.at += 60
        worker.run_tick()
    assert len(notes) == 1
    with store.read() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM notices").scalar() == 1
    assert [event for event in all_events(store) if event.startswith("asked: ")] == [
        f"asked: {target}"
    ]
