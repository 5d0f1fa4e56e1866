"""What every ports.Cluster does, run against every implementation of it.

An implementation joins by a rig: it runs a job, puts a standby behind it, and lets time pass.
"""

from collections.abc import Callable
from typing import Protocol

import pytest

from mirage.domain.chain import ChainId, find_mark
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.ports import Cluster
from mirage.errors import ClusterRefused, JobChanged
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.simulator.types import Params, SimJob, build_afterany
from mirage.slurm.text.dependency import normalize_dependency

UNKNOWN = JobId(999_999)


class Rig(Protocol):
    """A cluster of two nodes in which `predecessor` runs and `standby` waits behind its end."""

    cluster: Cluster
    predecessor: JobId
    standby: JobId

    def wait(self, seconds: int) -> None: ...

    def until(self, holds: Callable[[], bool], seconds: int) -> None:
        """Let time pass until it holds; at most that long, or the test fails."""
        ...

    def fill_free_node(self) -> None:
        """Fill every node, so that an eligible job does not start."""
        ...

    def submit_for_nodes(self, node_list: str) -> JobId:
        """A second standby, whose user asks for these nodes (--nodelist)."""
        ...

    def requested_nodes(self, job_id: JobId) -> str:
        """The nodes that a job asks for by name; empty: any."""
        ...

    def place_hold(self, job_id: JobId, *, admin: bool = False) -> None:
        """By the job's owner, or by an admin."""
        ...

    def lift_hold(self, job_id: JobId) -> None:
        """By an admin."""
        ...


class SimulatedRig:
    def __init__(self) -> None:
        self.cluster = SimulatedCluster(Params(nodes=2, bf_interval_s=10), now=1_000_000)
        first = self.cluster.submit_chain(ChainId("abcd1234"), links=3, time_limit_s=3600)
        self.predecessor = first
        self.cluster.advance(20)
        marks = {find_mark(j.comment): j.job_id for j in self.cluster.fetch_queue()}
        self.standby = next(i for mark, i in marks.items() if mark and mark.index == 2)

    def wait(self, seconds: int) -> None:
        self.cluster.advance(seconds)

    def until(self, holds: Callable[[], bool], seconds: int) -> None:
        for _ in range(seconds):
            if holds():
                return
            self.cluster.advance(1)
        pytest.fail(f"not within {seconds} s")

    def fill_free_node(self) -> None:
        self.cluster.submit_chain(ChainId("crowd0000"), links=1, time_limit_s=7200)
        self.cluster.advance(10)

    def submit_for_nodes(self, node_list: str) -> JobId:
        standby = SimJob(
            user="chain-abcd1234",
            exclusive=True,
            time_limit_s=3600,
            run_s=3600,
            node_list=(self._names.index(node_list),),
            dependencies=build_afterany(self.predecessor),
        )
        return JobId(self.cluster.simulator.inject(standby))

    def requested_nodes(self, job_id: JobId) -> str:
        record = self.cluster.simulator.find(job_id)
        assert record is not None
        return ",".join(self._names[number] for number in record.node_list)

    def place_hold(self, job_id: JobId, *, admin: bool = False) -> None:
        self.cluster.simulator.hold(job_id, admin=admin)

    def lift_hold(self, job_id: JobId) -> None:
        self.cluster.simulator.release(job_id)

    @property
    def _names(self) -> list[str]:
        return [node.name for node in self.cluster.fetch_nodes()]


@pytest.fixture
def simulated_rig() -> SimulatedRig:
    return SimulatedRig()


@pytest.fixture(
    params=[
        "simulated_rig",
        pytest.param("slurm_rig", marks=pytest.mark.slurm),
        pytest.param("rest_rig", marks=pytest.mark.slurm),
    ]
)
def rig(request: pytest.FixtureRequest) -> Rig:
    made: Rig = request.getfixturevalue(request.param)
    return made


def find(rig: Rig, job_id: JobId) -> Job:
    job = rig.cluster.fetch_queue().find_job(job_id)
    assert job is not None
    return job


def owner_of(rig: Rig) -> int:
    """The uid of the rig's one user."""
    uid = find(rig, rig.predecessor).uid
    assert uid is not None
    return uid


def behind(rig: Rig) -> str:
    return f"afterany:{rig.predecessor}"


def test_a_standby_waits_behind_its_predecessor(rig: Rig) -> None:
    standby = find(rig, rig.standby)
    assert standby.state is JobState.PENDING
    assert standby.dependency == f"{behind(rig)}(unfulfilled)"
    assert standby.reason == "Dependency"
    assert standby.eligible is None


def test_a_freed_standby_is_eligible_at_that_second(rig: Rig) -> None:
    rig.fill_free_node()
    at = rig.cluster.read_clock()
    rig.cluster.free_standby(rig.standby, owner=owner_of(rig), dependency="")
    standby = find(rig, rig.standby)
    assert standby.dependency == ""
    assert standby.eligible is not None
    assert at <= standby.eligible <= rig.cluster.read_clock()


def test_a_freed_standby_starts_where_there_is_room(rig: Rig) -> None:
    rig.cluster.free_standby(rig.standby, owner=owner_of(rig), dependency="")
    rig.until(lambda: find(rig, rig.standby).state is JobState.RUNNING, 30)
    assert find(rig, rig.predecessor).state is JobState.RUNNING


def test_hold_takes_it_back_behind_its_predecessor(rig: Rig) -> None:
    rig.fill_free_node()
    rig.cluster.free_standby(rig.standby, owner=owner_of(rig), dependency="")
    rig.cluster.set_dependency(rig.standby, owner=owner_of(rig), dependency=behind(rig))
    standby = find(rig, rig.standby)
    assert standby.dependency == f"{behind(rig)}(unfulfilled)"
    assert standby.state is JobState.PENDING


def test_a_pinned_standby_takes_only_its_predecessors_nodes(rig: Rig) -> None:
    nodes = find(rig, rig.predecessor).node_list
    rig.cluster.pin_standby(rig.standby, owner=owner_of(rig), dependency="", node_list=nodes)
    rig.wait(30)
    assert find(rig, rig.standby).state is JobState.PENDING, "the other node is idle"


def test_a_standby_that_asks_for_nodes_itself_is_not_pinned_and_keeps_them(rig: Rig) -> None:
    """Though they are its predecessor's: unpinned, it would start anywhere."""
    nodes = find(rig, rig.predecessor).node_list
    standby = rig.submit_for_nodes(nodes)
    with pytest.raises(ClusterRefused, match="asks for nodes itself"):
        rig.cluster.pin_standby(standby, owner=owner_of(rig), dependency="", node_list=nodes)
    assert find(rig, standby).dependency == f"{behind(rig)}(unfulfilled)"
    rig.cluster.free_standby(standby, owner=owner_of(rig), dependency="")
    rig.cluster.set_dependency(standby, owner=owner_of(rig), dependency=behind(rig))
    assert rig.requested_nodes(standby) == nodes


def test_what_is_pinned_may_be_let_off_and_pinned_again(rig: Rig) -> None:
    nodes = find(rig, rig.predecessor).node_list
    for _ in range(2):
        rig.cluster.pin_standby(rig.standby, owner=owner_of(rig), dependency="", node_list=nodes)
        assert rig.requested_nodes(rig.standby) == nodes
        told = rig.cluster.fetch_requested_nodes([rig.predecessor, rig.standby])
        assert told == {rig.standby: nodes}
        rig.cluster.set_dependency(rig.standby, owner=owner_of(rig), dependency=behind(rig))
        assert rig.requested_nodes(rig.standby) == ""
        assert rig.cluster.fetch_requested_nodes([rig.standby]) == {}


def test_a_suspended_standby_does_not_start_until_resumed(rig: Rig) -> None:
    rig.cluster.hold_job(rig.standby, owner=owner_of(rig))
    rig.cluster.free_standby(rig.standby, owner=owner_of(rig), dependency="")
    rig.wait(30)
    assert find(rig, rig.standby).state is JobState.PENDING
    rig.cluster.release_job(rig.standby, owner=owner_of(rig))
    rig.until(lambda: find(rig, rig.standby).state is JobState.RUNNING, 30)


def holds(rig: Rig, job_id: JobId) -> tuple[str, int | None]:
    """Whose hold it is, in Slurm's word, and the priority."""
    job = find(rig, job_id)
    return job.reason, job.priority


def test_a_suspended_standby_is_under_a_users_hold(rig: Rig) -> None:
    rig.cluster.hold_job(rig.standby, owner=owner_of(rig))
    assert holds(rig, rig.standby) == ("JobHeldUser", 0)
    rig.cluster.release_job(rig.standby, owner=owner_of(rig))
    reason, priority = holds(rig, rig.standby)
    assert not reason.startswith("JobHeld")
    assert priority != 0


def test_an_admins_hold_and_its_owners_are_told_apart(rig: Rig) -> None:
    rig.place_hold(rig.standby)
    assert holds(rig, rig.standby) == ("JobHeldUser", 0)
    rig.place_hold(rig.standby, admin=True)
    assert holds(rig, rig.standby) == ("JobHeldAdmin", 0)
    rig.lift_hold(rig.standby)
    assert not find(rig, rig.standby).reason.startswith("JobHeld")


def test_an_admins_hold_is_not_made_a_users(rig: Rig) -> None:
    rig.place_hold(rig.standby, admin=True)
    with pytest.raises(JobChanged, match="is held already"):
        rig.cluster.hold_job(rig.standby, owner=owner_of(rig))
    assert holds(rig, rig.standby) == ("JobHeldAdmin", 0)


@pytest.mark.parametrize("suspended", [True, False], ids=["beside Mirage's", "alone"])
def test_an_admins_hold_is_not_lifted(rig: Rig, *, suspended: bool) -> None:
    if suspended:
        rig.cluster.hold_job(rig.standby, owner=owner_of(rig))
    rig.place_hold(rig.standby, admin=True)
    with pytest.raises(JobChanged, match="JobHeldAdmin"):
        rig.cluster.release_job(rig.standby, owner=owner_of(rig))
    assert holds(rig, rig.standby) == ("JobHeldAdmin", 0)


def test_what_its_owner_holds_is_not_held_once_more(rig: Rig) -> None:
    """Nobody could tell afterwards whose the hold is."""
    rig.place_hold(rig.standby)
    with pytest.raises(JobChanged, match="is held already"):
        rig.cluster.hold_job(rig.standby, owner=owner_of(rig))


def test_what_is_not_held_is_not_released(rig: Rig) -> None:
    with pytest.raises(JobChanged, match="no user's hold keeps it waiting"):
        rig.cluster.release_job(rig.standby, owner=owner_of(rig))


def test_what_runs_is_neither_held_nor_released(rig: Rig) -> None:
    """slurmctld would take the hold, and the job would wait once it is requeued."""
    before = holds(rig, rig.predecessor)
    for move in (rig.cluster.hold_job, rig.cluster.release_job):
        with pytest.raises(JobChanged, match="is not waiting any more"):
            move(rig.predecessor, owner=owner_of(rig))
    assert holds(rig, rig.predecessor) == before


def test_a_cancelled_standby_is_over_and_still_shown_for_a_while(rig: Rig) -> None:
    rig.cluster.cancel_job(rig.standby, owner=owner_of(rig))
    assert find(rig, rig.standby).state is JobState.CANCELLED


def test_the_queue_tells_what_runs_and_until_when(rig: Rig) -> None:
    queue = rig.cluster.fetch_queue()
    job = queue.find_job(rig.predecessor)
    assert job is not None
    assert (job.state, job.nodes, job.dependency, job.reason) == (JobState.RUNNING, 1, "", "")
    assert job.start is not None
    assert job.time_limit_s == 3600
    assert (job.end, job.expected_end) == (None, job.start + job.time_limit_s)
    assert job.submit <= job.start <= queue.taken_at
    assert job.eligible is not None
    assert job.submit <= job.eligible <= job.start


def test_a_freed_standby_that_cannot_start_has_a_planned_start(rig: Rig) -> None:
    rig.fill_free_node()
    rig.cluster.free_standby(rig.standby, owner=owner_of(rig), dependency="")
    rig.until(lambda: find(rig, rig.standby).planned_start is not None, 60)
    standby, predecessor = find(rig, rig.standby), find(rig, rig.predecessor)
    assert (standby.state, standby.start, standby.end) == (JobState.PENDING, None, None)
    assert standby.planned_start is not None
    assert predecessor.expected_end is not None
    # The simulator plans in whole steps of its backfill.
    end = predecessor.expected_end
    assert end <= standby.planned_start <= end + 60


def test_nodes_tell_what_is_taken(rig: Rig) -> None:
    nodes = rig.cluster.fetch_nodes()
    assert sorted(n.state for n in nodes) == ["allocated", "idle"]
    taken = [n.name for n in nodes if n.state == "allocated"]
    assert taken == [find(rig, rig.predecessor).node_list]


def test_history_has_jobs_of_the_window_and_no_others(rig: Rig) -> None:
    now = rig.cluster.read_clock()
    ids = {j.job_id for j in rig.cluster.fetch_history(now - 3600, now + 1)}
    assert rig.predecessor in ids
    assert not list(rig.cluster.fetch_history(now - 7200, now - 3600))


def test_jobs_leaves_unknown_ids_out(rig: Rig) -> None:
    found = rig.cluster.fetch_job_records([rig.predecessor, UNKNOWN])
    assert [j.job_id for j in found] == [rig.predecessor]


def test_moves_of_unknown_jobs_are_refused(rig: Rig) -> None:
    cluster = rig.cluster
    with pytest.raises(ClusterRefused):
        cluster.free_standby(UNKNOWN, owner=owner_of(rig), dependency="")
    with pytest.raises(ClusterRefused):
        cluster.set_dependency(UNKNOWN, owner=owner_of(rig), dependency=behind(rig))
    with pytest.raises(ClusterRefused):
        cluster.pin_standby(
            UNKNOWN,
            owner=owner_of(rig),
            dependency="",
            node_list=find(rig, rig.predecessor).node_list,
        )
    with pytest.raises(ClusterRefused):
        cluster.cancel_job(UNKNOWN, owner=owner_of(rig))
    with pytest.raises(ClusterRefused):
        cluster.hold_job(UNKNOWN, owner=owner_of(rig))
    with pytest.raises(ClusterRefused):
        cluster.release_job(UNKNOWN, owner=owner_of(rig))


def test_no_move_touches_a_job_of_somebody_else(rig: Rig) -> None:
    """Whoever the chain's owner is: Slurm is asked whose the job is before each move."""
    cluster, stranger = rig.cluster, owner_of(rig) + 1
    before = find(rig, rig.standby)
    moves: list[Callable[[], None]] = [
        lambda: cluster.free_standby(rig.standby, owner=stranger, dependency=""),
        lambda: cluster.set_dependency(rig.standby, owner=stranger, dependency=""),
        lambda: cluster.pin_standby(
            rig.standby, owner=stranger, dependency="", node_list="anything"
        ),
        lambda: cluster.hold_job(rig.standby, owner=stranger),
        lambda: cluster.release_job(rig.standby, owner=stranger),
        lambda: cluster.cancel_job(rig.standby, owner=stranger),
        lambda: cluster.cancel_job(rig.predecessor, owner=stranger),
    ]
    for move in moves:
        with pytest.raises(ClusterRefused, match="is not touched"):
            move()
    after = find(rig, rig.standby)
    told = [(job.state, job.dependency, job.reason) for job in (before, after)]
    assert told[0] == told[1]
    assert rig.requested_nodes(rig.standby) == ""
    assert find(rig, rig.predecessor).state is JobState.RUNNING


def test_a_dependency_that_was_changed_since_the_look_is_not_overwritten(rig: Rig) -> None:
    """Its owner may add a term between the look and the move."""
    cluster, owner = rig.cluster, owner_of(rig)
    seen = f"{behind(rig)}(unfulfilled)"
    newer = f"{behind(rig)},afternotok:{rig.predecessor}"
    cluster.set_dependency(rig.standby, owner=owner, dependency=newer)
    moves: list[Callable[[], None]] = [
        lambda: cluster.free_standby(
            rig.standby, owner=owner, dependency="", expected_dependency=seen
        ),
        lambda: cluster.set_dependency(
            rig.standby, owner=owner, dependency="", expected_dependency=seen
        ),
        lambda: cluster.pin_standby(
            rig.standby, owner=owner, dependency="", node_list="anything", expected_dependency=seen
        ),
    ]
    for move in moves:
        with pytest.raises(JobChanged, match="is not moved: its dependency was"):
            move()
    assert normalize_dependency(find(rig, rig.standby).dependency) == newer
    cluster.set_dependency(
        rig.standby, owner=owner, dependency=behind(rig), expected_dependency=newer
    )


def test_a_running_job_cannot_be_freed(rig: Rig) -> None:
    with pytest.raises(ClusterRefused):
        rig.cluster.free_standby(rig.predecessor, owner=owner_of(rig), dependency="")
