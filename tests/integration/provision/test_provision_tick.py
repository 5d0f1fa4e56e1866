"""One provision tick, end to end: decided, written down, told to Slurm, settled."""

import pytest

from mirage.chains.lifecycle import Registration, register_chain
from mirage.database.chains.decisions import Effect
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Position
from mirage.domain.decision import Action, Forecast, Mode
from mirage.domain.job import JobState
from mirage.domain.ports import Policy
from mirage.errors import ClusterRefused, ClusterUnavailable, NotFound
from mirage.policies import registry
from mirage.provision.control.limits import Limits
from tests.support.provision import slurm_jobs
from tests.support.provision.scene import HOUR, Always, Scene


def test_a_standby_is_freed_and_that_is_written_down(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    scene.tick()
    (row,) = scene.decisions
    assert (row.action, row.mode, row.effect) == (Action.FREE, Mode.ACT, Effect.DONE)
    assert row.inputs == {"predecessor": scene.job(1).job_id, "standby": scene.job(2).job_id}
    assert (scene.held, scene.standby.position) == (False, Position.FREE)
    assert scene.standby.freed_at == scene.cluster.read_clock()
    assert scene.events == ["adopted", "free: done"]
    for _ in range(3):
        scene.tick()
    assert (len(scene.decisions), scene.cluster.move_count) == (1, 1)


def test_shadow_logs_the_same_decision_and_touches_nothing(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store, mode=Mode.SHADOW)
    scene.tick()
    (row,) = scene.decisions
    assert (row.action, row.mode, row.effect) == (Action.FREE, Mode.SHADOW, Effect.NONE)
    assert row.reason == "always"
    assert scene.held
    assert scene.cluster.move_count == 0


def test_observe_decides_nothing(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store, mode=Mode.OBSERVE)
    scene.tick()
    assert (scene.decisions, scene.held) == ([], True)


def test_the_mode_of_a_partition_goes_before_the_clusters(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store, mode=Mode.SHADOW)
    with sqlite_store.begin() as tx:
        clusters.set_mode(tx, scene.cluster_id, Mode.ACT, "batch")
    scene.tick()
    assert not scene.held


def test_each_chain_has_the_policy_it_asked_for(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store, policies=registry.get_policy)
    job = scene.job(1)
    assert job.uid is not None
    with sqlite_store.begin() as tx:
        new = Registration(chain_id=slurm_jobs.CHAIN, links=3, policy="reactive")
        register_chain(
            tx, scene.cluster_id, new, uid=job.uid, user=job.user, now=scene.cluster.read_clock()
        )
    scene.tick()
    assert [(row.policy, row.action) for row in scene.decisions] == [("reactive", Action.WAIT)]


@pytest.mark.parametrize("fault", [NotFound("no policy 'always'"), ZeroDivisionError("by zero")])
def test_a_policy_that_fails_costs_its_chain_a_wait(sqlite_store: Store, fault: Exception) -> None:
    def broken(name: str) -> Policy:
        if name == "always":
            raise fault
        return Always(name)

    scene = Scene(sqlite_store, policies=broken)
    scene.tick()
    (row,) = scene.decisions
    assert (row.action, row.reason, scene.held) == (Action.WAIT, f"no answer: {fault}", True)


@pytest.mark.parametrize("reaches_slurm", [True, False])
@pytest.mark.parametrize(
    "end", [ClusterUnavailable("no answer"), SystemExit()], ids=["gone", "kill"]
)
def test_an_intention_is_durable_before_the_move_and_settled_by_what_the_queue_shows(
    sqlite_store: Store, end: BaseException, *, reaches_slurm: bool
) -> None:
    scene = Scene(sqlite_store)
    scene.cluster.error, scene.cluster.reaches_slurm = end, reaches_slurm
    try:
        scene.tick()
    except SystemExit:
        scene.worker = scene.new_worker()
    assert [row.effect for row in scene.decisions] == [Effect.INTENDED]
    at = scene.decisions[0].at
    scene.cluster.error = None
    scene.tick()
    effects = [row.effect for row in scene.decisions]
    if reaches_slurm:
        assert effects == [Effect.DONE]
        assert "reconciled free: done" in scene.events
        assert (scene.standby.freed_at, scene.cluster.move_count) == (at, 1)
    else:
        assert effects == [Effect.FAILED, Effect.DONE]
        assert "reconciled free: failed" in scene.events
        assert (scene.standby.freed_at, scene.cluster.move_count) == (at + 60, 2)


def test_a_standby_that_its_predecessors_end_started_was_not_freed(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    scene.cluster.error = ClusterUnavailable("no answer")
    scene.tick()
    scene.tick(HOUR)
    assert scene.job(2).state is JobState.RUNNING
    assert [row.effect for row in scene.decisions] == [Effect.FAILED]
    assert scene.standby.freed_at is None


def test_a_standby_that_started_early_was_freed_though_nobody_answered(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    scene.cluster.error, scene.cluster.reaches_slurm = ClusterUnavailable("no answer"), True
    scene.tick()
    at = scene.cluster.read_clock()
    crowd = next(job for job in scene.cluster.fetch_queue() if "crowd" in job.comment)
    assert crowd.uid is not None
    scene.cluster.cancel_job(crowd.job_id, owner=crowd.uid)
    scene.tick()
    assert (scene.job(1).state, scene.job(2).state) == (JobState.RUNNING, JobState.RUNNING)
    assert [row.effect for row in scene.decisions] == [Effect.DONE]
    assert (scene.standby.freed_at, scene.standby.position) == (at, Position.FREE)


def test_what_slurm_refused_is_asked_for_again_after_a_quarter_of_an_hour(
    sqlite_store: Store,
) -> None:
    scene = Scene(sqlite_store)
    scene.cluster.error = ClusterRefused("Access denied")
    for _ in range(15):
        scene.tick()
    assert [(row.effect, row.error) for row in scene.decisions] == [
        (Effect.REFUSED, "Access denied")
    ]
    scene.cluster.error = None
    scene.tick(120)
    assert (scene.cluster.move_count, scene.held) == (2, False)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (
            Limits(max_lead_s=1800),
            "the standby is freed at most 0.5 h before its predecessor's end (max_lead_h)",
        ),
        (Limits(min_gain_s=91), "the forecast wait of 90 s is too short for a move (min_gain_s)"),
        (
            Limits(account_overlap_node_h=0.9),
            "this release could cost 1.0 node-hours of overlap, more than the account has left of "
            "0.9 in 24 h (account_overlap_node_h)",
        ),
        (
            Limits(cluster_overlap_node_h=0.9),
            "this release could cost 1.0 node-hours of overlap, more than the cluster has left of "
            "0.9 in 24 h (cluster_overlap_node_h)",
        ),
    ],
    ids=["max lead", "min gain", "account", "cluster"],
)
def test_each_limit_stops_a_move_with_its_sentence(
    sqlite_store: Store, limits: Limits, reason: str
) -> None:
    forecast = Forecast(p50_s=60.0, p90_s=90.0)
    scene = Scene(sqlite_store, policies=lambda name: Always(name, forecast), limits=limits)
    scene.tick()
    assert [(row.action, row.reason) for row in scene.decisions] == [(Action.WAIT, reason)]
    assert scene.held


def test_just_within_its_limits_a_move_is_made(sqlite_store: Store) -> None:
    limits = Limits(
        max_lead_s=HOUR, min_gain_s=90, account_overlap_node_h=1.0, cluster_overlap_node_h=1.0
    )
    forecast = Forecast(p50_s=60.0, p90_s=90.0)
    scene = Scene(sqlite_store, policies=lambda name: Always(name, forecast), limits=limits)
    scene.tick()
    assert not scene.held
