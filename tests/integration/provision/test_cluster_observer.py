"""What models are shown in the service: the numbers of training, or a reason why there are none."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mirage.chains import link_sync
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.arrays import Observation
from mirage.domain.chain import ChainId, Mark, find_mark
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.job import JobState
from mirage.domain.ports import Needs, Policy, SimplePolicy
from mirage.domain.snapshot import Queue, Snapshot
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.observation import feature_vector, spec
from mirage.provision.cluster_observer import NO_FILE, Observer, TickObservations
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.polling.live_ingest import ingest_queue
from mirage.service.worker import Worker
from mirage.simulator.types import Params, SimJob
from tests.support.observation.groups import get_group_slice
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, generate_jobs
from tests.support.provision import slurm_jobs
from tests.support.provision.scene import Scene

POINT = BEGIN + 20 * HOUR
PAIR = PairSettings(
    nodes=2, time_limit_s=12 * HOUR, every_s=HOUR, since=POINT, until=POINT + 1, user="pair"
)
AFTER_S = (600, 4 * HOUR, 11 * HOUR)
LOAD = 120
"""Few enough jobs that the successor has a planned start."""
SITES = {
    "whole nodes": PARAMS,
    "age from submission": replace(PARAMS, accrue_always=True, priority_favor_small=True),
    "fair share": replace(PARAMS, priority_weight_fairshare=5000),
}


class Watching(SimplePolicy):
    """A policy that waits, and keeps what it was shown."""

    name = "watching"
    needs = Needs(observation=True)

    def __init__(self) -> None:
        self.views: list[PolicyView] = []

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        return Decision(action=Action.WAIT, reason=view.why_unobserved, policy=self.name)


def worker(store: Store, cluster: SimulatedCluster, policy: Policy, observer: Observer) -> Worker:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "scene")
    settings = DecisionSettings(
        get_policy=lambda name: policy, default_policy="watching", observer=observer
    )
    return Worker(store, cluster, cluster_id, settings=settings)


def in_training(params: Params, jobs: list[SimJob]) -> tuple[int, list[Observation]]:
    """The predecessor's start, and the rows of an episode table at `AFTER_S`."""
    worlds = TraceReplay(params, jobs, PAIR)
    world, past = worlds.fork_at(POINT)
    assert world is not None
    link = world.build_handover_input(worlds.link, POINT)
    rows = []
    for after_s in AFTER_S:
        past.follow_world(world.sim, world.start + after_s)
        rows.append(feature_vector.observe_simulator(world.sim, link, past.memory))
    return world.start, rows


def in_service(store: Store, params: Params, jobs: list[SimJob], start: int) -> list[Observation]:
    """What a policy is shown of the same pair at the same instants, through queue and database."""
    cluster, watching = SimulatedCluster(params, jobs, now=BEGIN), Watching()
    ticking = worker(store, cluster, watching, Observer(params=params))
    cluster.advance(POINT - BEGIN)
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user=PAIR.user
    )
    rows = []
    for after_s in AFTER_S:
        # Accounting is read at the end of a tick: the minute since then the queue tells.
        for at in (start + after_s - 60, start + after_s):
            cluster.advance(at - cluster.read_clock())
            ticking.run_tick()
        seen = watching.views[-1]
        assert (seen.now, seen.predecessor_end) == (start + after_s, start + PAIR.time_limit_s)
        assert seen.observation is not None, seen.why_unobserved
        rows.append(seen.observation)
    return rows


@pytest.mark.parametrize("site", SITES)
def test_the_service_shows_what_training_has_shown(sqlite_store: Store, site: str) -> None:
    """All but the plans byte for byte. Squeue's priorities are whole points, so of two jobs within
    a point of each other a plan may take the other one first; and squeue does not show the fair
    share of a user without waiting jobs, so where that counts a plan may be another."""
    params, jobs = SITES[site], generate_jobs(3, jobs=LOAD)
    start, trained = in_training(params, jobs)
    served = in_service(sqlite_store, params, jobs, start)
    plans = get_group_slice("plan")
    for a, b in zip(trained, served, strict=True):
        pairs = zip(spec.FEATURE_NAMES[: plans.start], a, b, strict=False)
        assert {name: (x, y) for name, x, y in pairs if x != y} == {}
    if not params.priority_weight_fairshare:
        apart_s = np.abs(planned(trained) - planned(served))
        assert (apart_s <= params.bf_resolution_s).mean() >= 0.9
        assert np.ptp(planned(served)[:, 0]) > HOUR


def test_a_later_links_predecessor_waited_since_it_was_eligible(sqlite_store: Store) -> None:
    """It was submitted a whole run before, behind its own predecessor."""
    cluster, watching = SimulatedCluster(PARAMS, generate_jobs(3, jobs=LOAD), now=BEGIN), Watching()
    ticking = worker(sqlite_store, cluster, watching, Observer(params=PARAMS))
    cluster.advance(POINT - BEGIN)
    chain = ChainId("chain000")
    cluster.submit_chain(chain, links=3, nodes=2, time_limit_s=PAIR.time_limit_s, user=PAIR.user)
    second = None
    while second is None or second.state is not JobState.RUNNING:
        cluster.advance(600)
        ticking.run_tick()
        marks = {find_mark(job.comment): job for job in cluster.fetch_queue()}
        second = marks.get(Mark(chain, 2))
    cluster.advance(600)
    ticking.run_tick()
    observation = watching.views[-1].observation
    assert observation is not None
    assert second.start is not None
    assert second.eligible is not None
    waited = spec.invert_scaling(observation[None])[0, spec.PLACES["predecessor_wait"]]
    assert waited == pytest.approx(second.start - second.eligible, abs=1)
    assert second.eligible - second.submit > 11 * HOUR


def planned(rows: list[Observation]) -> NDArray[np.float64]:
    """The numbers of the plans, seconds."""
    return spec.invert_scaling(np.array(rows))[:, get_group_slice("plan")]


def shown_in(store: Store, observer: Observer | None, snapshot: Snapshot) -> str:
    """Why the standby of the scene is not observed; empty where it is."""
    of_chain = slurm_jobs.links(store)
    with store.begin() as tx:
        observation, why = TickObservations(observer, tx, 1, snapshot).observe_handover(
            of_chain[1], of_chain[2]
        )
    assert (observation is None) == bool(why)
    return why


def snapshot_of(scene: Scene) -> Snapshot:
    return Snapshot(queue=scene.cluster.fetch_queue(), nodes=scene.cluster.fetch_nodes())


def test_what_is_missing_is_named(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    observer = Observer(params=scene.cluster.params)
    scene.worker.run_tick()
    snapshot = snapshot_of(scene)
    assert shown_in(sqlite_store, observer, snapshot) == ""
    assert shown_in(sqlite_store, None, snapshot) == f"no observation: {NO_FILE}"
    no_nodes = replace(snapshot, nodes=())
    assert "no answer on nodes" in shown_in(sqlite_store, observer, no_nodes)
    more = Observer(params=replace(scene.cluster.params, nodes=3))
    assert "has 3 nodes, and Slurm shows 2" in shown_in(sqlite_store, more, snapshot)
    others = Observer(params=scene.cluster.params, node_names=("a1", "a2"))
    assert "none of the nodes" in shown_in(sqlite_store, others, snapshot)


def test_without_a_day_of_history_nothing_is_shown(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    queue = scene.cluster.fetch_queue()
    with sqlite_store.begin() as tx:
        ingest_queue(tx, scene.cluster_id, queue, scene.cluster.fetch_nodes())
        link_sync.sync_links(
            tx, scene.cluster_id, link_sync.list_marked_jobs(queue), queue.taken_at
        )
    observer = Observer(params=scene.cluster.params)
    assert "accounting has not been read" in shown_in(sqlite_store, observer, snapshot_of(scene))
    # A day of watching does as well.
    earlier = Queue.from_jobs(scene.cluster.read_clock() - 86400, ())
    with sqlite_store.begin() as tx:
        ingest_queue(tx, scene.cluster_id, earlier, None)
    assert shown_in(sqlite_store, observer, snapshot_of(scene)) == ""


def test_a_queue_of_which_jobs_are_hidden_is_not_taken_for_the_whole(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    scene.worker.run_tick()
    snapshot = snapshot_of(scene)
    own = [job for job in snapshot.queue if "crowd" not in job.comment]
    partial = replace(snapshot, queue=Queue.from_jobs(snapshot.queue.taken_at, own))
    hiding = Observer(params=scene.cluster.params, hides_jobs=lambda: True)
    assert "nothing is seen on 1 busy nodes" in shown_in(sqlite_store, hiding, partial)
    # An operator sees them all.
    assert shown_in(sqlite_store, hiding, snapshot) == ""


def test_a_fault_in_what_is_seen_is_said_and_stops_nothing(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store)
    scene.worker.run_tick()

    def broken() -> bool:
        raise ZeroDivisionError("by zero")

    observer = Observer(params=scene.cluster.params, hides_jobs=broken)
    assert "by zero" in shown_in(sqlite_store, observer, snapshot_of(scene))


def test_nothing_is_worked_out_for_policies_that_do_not_look(sqlite_store: Store) -> None:
    def never() -> bool:
        raise AssertionError("asked")

    scene = Scene(sqlite_store)
    scene.settings = replace(
        scene.settings, observer=Observer(params=scene.cluster.params, hides_jobs=never)
    )
    scene.worker = scene.new_worker()
    scene.tick()
    assert [row.inputs.keys() for row in scene.decisions] == [{"predecessor", "standby"}]


def test_the_audit_keeps_the_digest_of_what_was_seen(sqlite_store: Store) -> None:
    scene = Scene(sqlite_store, policies=lambda name: Watching())
    scene.settings = replace(scene.settings, observer=Observer(params=scene.cluster.params))
    scene.worker = scene.new_worker()
    scene.tick()
    scene.tick()
    first, second = scene.decisions
    assert "accounting has not been read" in first.reason
    assert "observation" not in first.inputs
    assert len(second.inputs["observation"]) == 16


class LookingBack(Watching):
    needs = Needs(observation=True, window=True)


def test_a_model_that_looks_back_is_shown_its_run_so_far(sqlite_store: Store) -> None:
    cluster, watching = (
        SimulatedCluster(PARAMS, generate_jobs(3, jobs=50), now=BEGIN),
        LookingBack(),
    )
    ticking = worker(sqlite_store, cluster, watching, Observer(params=PARAMS))
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user=PAIR.user
    )
    for _ in range(5):
        cluster.advance(600)
        ticking.run_tick()
    # The first tick knows no history, and so observes nothing.
    views = [view for view in watching.views if view.observation is not None]
    assert len(views) == 4
    for i, view in enumerate(views):
        wanted = np.stack([v.observation for v in views[: i + 1] if v.observation is not None])
        assert view.window is not None
        assert np.array_equal(view.window, wanted)
