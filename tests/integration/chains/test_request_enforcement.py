"""What owners asked for is what Slurm does: the real worker on a simulated cluster."""

from dataclasses import replace

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains import request_enforcement
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId, ChainState, Mark, find_mark
from mirage.domain.chain_cause import Reason, build_mirage_cause
from mirage.domain.decision import Mode
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.simulator.types import Params, SimJob
from tests.support.slurm.printed_jobs import reread_queue_job

CHAIN = ChainId("abcd1234")
HOUR = 3600


class Deaf(SimulatedCluster):
    """Answers moves with an error while it has one."""

    error: Exception | None = None

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        if self.error is not None:
            raise self.error
        super().hold_job(standby, owner=owner)


class RequestScene:
    """A chain of three links of an hour on a cluster of four nodes, and the worker."""

    def __init__(self, store: Store, policy: str = "reactive") -> None:
        self.store = store
        self.cluster = Deaf(Params(nodes=4, bf_interval_s=10), now=1_000_000)
        self.cluster.submit_chain(CHAIN, links=3, time_limit_s=HOUR)
        self.cluster.advance(30)
        with store.begin() as tx:
            self.cluster_id = clusters.ensure_cluster(tx, "lab")
        policies = {p.name: p for p in (Reactive(), AtOnce())}
        self.worker = self.new_worker(
            DecisionSettings(get_policy=lambda name: policies[name], default_policy=policy)
        )
        self.worker.run_tick()

    def new_worker(self, settings: DecisionSettings) -> Worker:
        return Worker(self.store, self.cluster, self.cluster_id, settings=settings)

    def mode(self, mode: Mode) -> None:
        with self.store.begin() as tx:
            clusters.set_mode(tx, self.cluster_id, mode)

    def ask(self, target: ChainState) -> None:
        with self.store.begin() as tx:
            now, chain = self.cluster.read_clock(), chains.get_chain(tx, 1, CHAIN)
            chain_service.request_state(tx, self.cluster_id, chain, target, now=now, actor="alice")

    def tick(self, after_s: int = 60) -> None:
        self.cluster.advance(after_s)
        self.worker.run_tick()

    def link(self, index: int) -> Job | None:
        marked = {find_mark(job.comment): job for job in self.cluster.fetch_queue()}
        return next((j for mark, j in marked.items() if mark and mark.index == index), None)

    def state(self, index: int) -> JobState:
        job = self.link(index)
        assert job is not None
        return job.state

    def held(self, index: int) -> bool:
        job = self.link(index)
        return job is not None and job.priority == 0

    def reason(self, index: int) -> str:
        job = self.link(index)
        return "" if job is None else job.reason

    def job_id(self, index: int) -> JobId:
        job = self.link(index)
        assert job is not None
        return job.job_id

    def events(self) -> list[str]:
        with self.store.read() as tx:
            return [entry.event for entry in audit.list_entries(tx, 1, chain_id=CHAIN)][::-1]

    @property
    def chain(self) -> Chain:
        with self.store.read() as tx:
            return chains.get_chain(tx, 1, CHAIN)


@pytest.fixture
def scene(sqlite_store: Store) -> RequestScene:
    """Overrides the room's scene: this one has its own verbs."""
    return RequestScene(sqlite_store)


def test_no_further_link_of_a_paused_chain_starts(scene: RequestScene) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    assert (scene.state(1), scene.held(2)) == (JobState.RUNNING, True)
    scene.tick(2 * HOUR)
    assert (scene.state(2), scene.chain.state) == (JobState.PENDING, ChainState.PAUSED)


def test_a_resumed_chain_goes_on(scene: RequestScene) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.tick(2 * HOUR)
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    scene.tick()
    assert scene.state(2) is JobState.RUNNING
    assert scene.events()[1:] == ["asked: paused", "suspend", "asked: resumed", "resume"]


def test_a_pause_is_told_once(scene: RequestScene) -> None:
    scene.ask(ChainState.PAUSED)
    for _ in range(3):
        scene.tick()
    assert scene.events().count("suspend") == 1


def test_a_hold_that_is_not_mirages_is_not_lifted(scene: RequestScene) -> None:
    scene.cluster.simulator.hold(scene.job_id(2))
    scene.tick()
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert scene.held(2)
    assert "resume" not in scene.events()


def test_an_admins_hold_that_came_after_a_pause_is_not_lifted(scene: RequestScene) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2), admin=True)
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    scene.tick()
    assert scene.reason(2) == "JobHeldAdmin"
    assert "resume" not in scene.events()
    assert "hold gone" in scene.events()


def test_an_admins_hold_is_not_lifted_after_another_admin_made_it_a_users(
    scene: RequestScene,
) -> None:
    """It is the owner's to release then, not Mirage's."""
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2), admin=True)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2))
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert (scene.reason(2), "resume" in scene.events()) == ("JobHeldUser", False)


@pytest.mark.parametrize("admin", [True, False])
def test_a_hold_that_came_after_a_pause_was_undone_by_hand_is_not_lifted(
    scene: RequestScene, *, admin: bool
) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    assert scene.held(2)
    scene.cluster.simulator.release(scene.job_id(2))
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2), admin=admin)
    scene.tick()
    scene.ask(ChainState.PAUSED)
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert scene.held(2)
    assert scene.events()[1:4] == ["asked: paused", "suspend", "asked: resumed"]
    assert (scene.events()[4], "resume" in scene.events()) == ("hold gone", False)


def test_a_paused_chain_whose_link_was_released_by_hand_is_held_anew(scene: RequestScene) -> None:
    """And that hold is Mirage's again."""
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.cluster.simulator.release(scene.job_id(2))
    scene.tick()
    assert scene.held(2)
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert not scene.held(2)
    assert scene.events()[-5:] == ["suspend", "hold gone", "suspend", "asked: resumed", "resume"]


def test_an_admins_hold_that_came_after_the_look_at_the_queue_stays_the_admins(
    scene: RequestScene,
) -> None:
    scene.ask(ChainState.PAUSED)
    queue = scene.cluster.fetch_queue()
    scene.cluster.simulator.hold(scene.job_id(2), admin=True)
    request_enforcement.enforce_requests(scene.store, scene.cluster, scene.cluster_id, queue)
    assert scene.reason(2) == "JobHeldAdmin"
    assert scene.events()[-2:] == ["suspend", "suspend: overtaken"]
    scene.cluster.simulator.release(scene.job_id(2))
    scene.tick()
    assert scene.held(2), "the pause holds at the next look, not after a quarter of an hour"
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert not scene.held(2)


def test_an_admins_hold_that_came_after_the_look_at_the_queue_is_not_lifted(
    scene: RequestScene,
) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.ask(ChainState.ACTIVE)
    queue = scene.cluster.fetch_queue()
    scene.cluster.simulator.hold(scene.job_id(2), admin=True)
    request_enforcement.enforce_requests(scene.store, scene.cluster, scene.cluster_id, queue)
    assert (scene.reason(2), scene.events()[-1]) == ("JobHeldAdmin", "resume: overtaken")


def test_a_hold_that_was_never_heard_of_is_not_mirages(scene: RequestScene) -> None:
    scene.cluster.error = ClusterUnavailable("no answer")
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2))
    scene.tick()
    scene.tick()
    assert scene.held(2)


def test_a_hold_that_was_refused_is_not_mirages(scene: RequestScene) -> None:
    scene.cluster.error = ClusterRefused("Access denied")
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.cluster.simulator.hold(scene.job_id(2))
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    scene.tick()
    assert scene.held(2)


def test_what_slurm_itself_gave_no_priority_is_not_released(sqlite_store: Store) -> None:
    """Its nodes do not fit, say: a release would have slurmctld look at it again and again."""
    scene = RequestScene(sqlite_store)
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.ask(ChainState.ACTIVE)
    shown = [_given_up(job) for job in scene.cluster.fetch_queue()]
    queue = Queue.from_jobs(scene.cluster.read_clock(), shown)
    request_enforcement.enforce_requests(sqlite_store, scene.cluster, scene.cluster_id, queue)
    assert "resume" not in scene.events()


def _given_up(job: Job) -> Job:
    return reread_queue_job(job, reason="BadConstraints") if job.state.is_waiting else job


def test_what_one_worker_held_the_next_one_releases(scene: RequestScene) -> None:
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.worker = scene.new_worker(
        DecisionSettings(get_policy=lambda _: Reactive(), default_policy="reactive")
    )
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert not scene.held(2)


def test_a_cancelled_chain_leaves_nothing_behind(scene: RequestScene) -> None:
    scene.ask(ChainState.CANCELLED)
    scene.tick()
    assert (scene.state(1), scene.state(2)) == (JobState.CANCELLED, JobState.CANCELLED)
    scene.tick(2 * HOUR)
    assert (scene.link(3), scene.chain.state) == (None, ChainState.CANCELLED)


def test_both_running_links_of_a_cancelled_chain_are_ended(sqlite_store: Store) -> None:
    scene = RequestScene(sqlite_store, policy="at-once")
    scene.mode(Mode.ACT)
    scene.tick()
    scene.tick()
    assert (scene.state(1), scene.state(2)) == (JobState.RUNNING, JobState.RUNNING)
    scene.ask(ChainState.CANCELLED)
    scene.tick()
    assert {scene.state(i) for i in (1, 2)} == {JobState.CANCELLED}


def test_a_link_cancelled_in_slurm_ends_no_other_that_runs(sqlite_store: Store) -> None:
    """scancel of the early successor: the predecessor works on, and nothing stands behind it."""
    scene = RequestScene(sqlite_store, policy="at-once")
    scene.mode(Mode.ACT)
    scene.tick()
    scene.tick()
    scene.cluster.cancel_job(scene.job_id(2), owner=scene.chain.uid)
    scene.tick()
    scene.tick()
    assert (scene.state(1), scene.chain.state) == (JobState.RUNNING, ChainState.CANCELLED)


@pytest.mark.parametrize(("mode", "obeyed"), [(Mode.SHADOW, True), (Mode.OBSERVE, False)])
def test_an_owner_is_obeyed_in_any_mode_but_observe(
    scene: RequestScene, mode: Mode, *, obeyed: bool
) -> None:
    scene.mode(mode)
    scene.ask(ChainState.PAUSED)
    scene.tick()
    assert scene.held(2) is obeyed


@pytest.mark.parametrize(("mode", "obeyed"), [(Mode.SHADOW, False), (Mode.ACT, True)])
def test_a_pause_that_mirage_concluded_touches_slurm_only_where_it_may_act(
    scene: RequestScene, mode: Mode, *, obeyed: bool
) -> None:
    scene.mode(mode)
    with scene.store.begin() as tx:
        paused = scene.chain.move_to(ChainState.PAUSED, build_mirage_cause(Reason.FAILED_FAST))
        chains.save_chain(tx, scene.cluster_id, paused)
    scene.tick()
    assert (scene.chain.state, scene.held(2)) == (ChainState.PAUSED, obeyed)
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert not scene.held(2)


def test_a_silent_slurm_is_told_again(scene: RequestScene) -> None:
    scene.cluster.error = ClusterUnavailable("no answer")
    scene.ask(ChainState.PAUSED)
    scene.tick()
    assert not scene.held(2)
    scene.cluster.error = None
    scene.tick()
    assert scene.held(2)


def test_what_somebody_undoes_each_minute_is_done_three_times_in_a_quarter_of_an_hour(
    scene: RequestScene,
) -> None:
    scene.ask(ChainState.PAUSED)
    for _ in range(10):
        scene.tick()
        scene.cluster.simulator.release(scene.job_id(2))
    assert scene.events().count("suspend") == request_enforcement.MOST_TRIES
    scene.tick(request_enforcement.ASK_AGAIN_S)
    assert scene.events().count("suspend") == request_enforcement.MOST_TRIES + 1
    assert scene.reason(2) == "JobHeldUser"


def test_a_thousand_jobs_of_one_user_keep_no_others_waiting(sqlite_store: Store) -> None:
    """bob's jobs all bear the mark of his own chain's second link."""
    scene = RequestScene(sqlite_store)
    bobs = ChainId("bobs1234")
    scene.cluster.submit_chain(bobs, links=2, time_limit_s=HOUR, user="bob")
    for _ in range(100):
        job = SimJob(time_limit_s=HOUR, run_s=HOUR, user="bob", comment=str(Mark(bobs, 2)))
        scene.cluster.simulator.inject(replace(job, begin=10 * scene.cluster.read_clock()))
    scene.tick()
    with sqlite_store.begin() as tx:
        now, paused = scene.cluster.read_clock(), ChainState.PAUSED
        for one in (
            chains.get_chain(tx, scene.cluster_id, bobs),
            chains.get_chain(tx, scene.cluster_id, CHAIN),
        ):
            chain_service.request_state(tx, scene.cluster_id, one, paused, now=now, actor=one.user)
    scene.tick()
    with sqlite_store.read() as tx:
        rows = audit.list_entries(tx, scene.cluster_id, event="suspend", limit=1000)
    assert scene.held(2)
    assert sum(row.chain_id == bobs for row in rows) == request_enforcement.MOST_OF_ONE


def test_what_slurm_refused_is_not_asked_for_at_every_tick(scene: RequestScene) -> None:
    scene.cluster.error = ClusterRefused("Access denied")
    scene.ask(ChainState.PAUSED)
    for _ in range(3):
        scene.tick()
    assert scene.events().count("suspend: refused") == 1
    scene.cluster.error = None
    scene.tick(900)
    assert scene.held(2)


def test_a_chain_that_somebody_else_registered_is_its_jobs_owners(sqlite_store: Store) -> None:
    """A mark is seen in the queue: who registers it first does not own it."""
    with sqlite_store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        new = chain_service.Registration(chain_id=CHAIN, links=3, job_id=JobId(1))
        chain_service.register_chain(tx, cluster_id, new, uid=666, user="mallory", now=999_000)
    scene = RequestScene(sqlite_store)
    assert scene.chain.user == "chain-abcd1234"
    assert scene.events() == ["registered", "adopted"]
