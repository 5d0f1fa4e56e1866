"""SlurmCli on the real Slurm of the testbed, as Operator unless it says otherwise.

What every cluster does is in test_contract.py, which runs on it as well.
"""

from pathlib import Path

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused, ClusterUnavailable, JobChanged
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.text import dependency
from tests.support.cluster.slurm_rig import SlurmRig, get_uid, put_on_path

pytestmark = pytest.mark.slurm


def test_the_queue_tells_all_of_a_job(slurm_rig: SlurmRig) -> None:
    queue = slurm_rig.cluster.fetch_queue()
    job = queue.find_job(slurm_rig.predecessor)
    assert job is not None
    assert (job.user, job.account, job.partition) == ("alice", "research", "gpu")
    assert (job.nodes, job.cpus, job.time_limit_s) == (1, 16, 3600)
    assert job.start is not None
    assert (job.end, job.expected_end) == (None, job.start + 3600)
    assert abs(job.start - slurm_rig.cluster.read_clock()) < 300
    assert job.state is JobState.RUNNING


def test_nodes_and_the_sites_regime(slurm_rig: SlurmRig) -> None:
    (node, _) = sorted(slurm_rig.cluster.fetch_nodes(), key=lambda n: n.name)
    assert sorted(node.partitions) == ["debug", "gpu", "long"]
    assert (node.cpus, node.gpus) == (16, 8)
    site = slurm_rig.cluster.fetch_site_config()
    said = slurm_rig.testbed.run(["sinfo", "-V"]).stdout
    assert said.split()[-1] == site.version
    assert site.age_counts
    assert site.keeps_comments


def test_slurmctld_counts_what_this_user_asks(slurm_rig: SlurmRig) -> None:
    """sdiag itself runs as who runs this; the other commands as mirage (put_on_path)."""

    def calls(user: str) -> int:
        return sum(row.calls for row in told.users if row.user == user)

    slurm_rig.cluster.fetch_nodes()
    told, own = slurm_rig.cluster.fetch_diagnosis()
    before = {user: calls(user) for user in (own, "mirage")}
    for _ in range(3):
        slurm_rig.cluster.fetch_nodes()
    told, _ = slurm_rig.cluster.fetch_diagnosis()
    assert told.since is None or told.since <= told.at
    assert calls("mirage") >= before["mirage"] + 3 > 3
    assert calls(own) > before[own]


def test_history_and_jobs_tell_the_same(slurm_rig: SlurmRig) -> None:
    now = slurm_rig.cluster.read_clock()
    history = {job.job_id: job for job in slurm_rig.cluster.fetch_history(now - 600, now + 60)}
    (job,) = slurm_rig.cluster.fetch_job_records([slurm_rig.predecessor])
    assert history[slurm_rig.predecessor] == job
    assert (job.user, job.time_limit_s, job.state) == ("alice", 3600, JobState.RUNNING)
    assert "sbatch" in job.submit_line


def test_windows_of_history_leave_nothing_out(slurm_rig: SlurmRig) -> None:
    now = slurm_rig.cluster.read_clock()
    whole = set(slurm_rig.cluster.fetch_history(now - 600, now))
    spans = [(now - 600 + i * 60, now - 540 + i * 60) for i in range(10)]
    pieces = {job for span in spans for job in slurm_rig.cluster.fetch_history(*span)}
    assert whole == pieces
    assert slurm_rig.predecessor in {job.job_id for job in pieces}


def _dependency(rig: SlurmRig, job_id: JobId) -> str:
    return dependency.normalize_dependency(_shown(rig, job_id).dependency)


def test_a_users_own_dependencies_stay_through_free_and_hold(slurm_rig: SlurmRig) -> None:
    own = f"afterok:{slurm_rig.predecessor},singleton"
    behind = dependency.add_own_term(own, slurm_rig.predecessor)
    standby = slurm_rig.submit(f"--dependency={behind}", "--job-name=own")
    shown = _dependency(slurm_rig, standby)
    rest = dependency.remove_own_term(shown, slurm_rig.predecessor)
    slurm_rig.cluster.free_standby(standby, owner=get_uid("alice"), dependency=rest)
    freed = _dependency(slurm_rig, standby)
    assert sorted(freed.split(",")) == sorted(rest.split(","))
    assert not dependency.has_own_term(freed, slurm_rig.predecessor)
    slurm_rig.cluster.set_dependency(
        standby,
        owner=get_uid("alice"),
        dependency=dependency.add_own_term(freed, slurm_rig.predecessor),
    )
    assert dependency.has_own_term(_dependency(slurm_rig, standby), slurm_rig.predecessor)


def test_a_users_own_node_list_stays(slurm_rig: SlurmRig) -> None:
    standby = slurm_rig.submit(f"--dependency=afterany:{slurm_rig.predecessor}", "--nodelist=gpu01")
    slurm_rig.cluster.free_standby(standby, owner=get_uid("alice"), dependency="")
    assert slurm_rig.testbed.job(standby)["ReqNodeList"] == "gpu01"


def test_a_pin_is_taken_back_by_free_and_by_hold(slurm_rig: SlurmRig) -> None:
    slurm_rig.fill_free_node()
    cluster, standby = slurm_rig.cluster, slurm_rig.standby
    behind = f"afterany:{slurm_rig.predecessor}"
    cluster.pin_standby(standby, owner=get_uid("alice"), dependency="", node_list="gpu01")
    assert slurm_rig.testbed.job(standby)["ReqNodeList"] == "gpu01"
    cluster.set_dependency(standby, owner=get_uid("alice"), dependency=behind)
    assert slurm_rig.testbed.job(standby)["ReqNodeList"] == "(null)"
    cluster.pin_standby(standby, owner=get_uid("alice"), dependency="", node_list="gpu01")
    # Another process, which does not know who pinned it, is told.
    SlurmCli().free_standby(standby, owner=get_uid("alice"), dependency="", unpin=True)
    assert slurm_rig.testbed.job(standby)["ReqNodeList"] == "(null)"


def test_of_nodes_that_do_not_fit_the_queue_tells_and_letting_it_off_mends_it(
    slurm_rig: SlurmRig,
) -> None:
    """Slurm takes such a pin, and sets the job's priority to 0 when it looks at it."""
    cluster, behind = slurm_rig.cluster, f"afterany:{slurm_rig.predecessor}"
    nodes = _shown(slurm_rig, slurm_rig.predecessor).node_list
    standby = slurm_rig.submit(f"--dependency={behind}", f"--exclude={nodes}")
    cluster.pin_standby(standby, owner=get_uid("alice"), dependency="", node_list=nodes)
    slurm_rig.testbed.wait_until(
        lambda: _shown(slurm_rig, standby).reason == "BadConstraints", 30, "the scheduler's look"
    )
    cluster.set_dependency(standby, owner=get_uid("alice"), dependency=behind)
    held = _shown(slurm_rig, standby)
    assert held.priority != 0
    assert slurm_rig.testbed.job(standby)["ExcNodeList"] == nodes


def test_what_slurm_gave_priority_0_is_neither_held_nor_released(slurm_rig: SlurmRig) -> None:
    nodes = _shown(slurm_rig, slurm_rig.predecessor).node_list
    job_id = slurm_rig.submit(f"--exclude={nodes}", "--begin=now+1hour")
    update = ["scontrol", "update", f"JobId={job_id}", f"ReqNodeList={nodes}", "StartTime=now"]
    slurm_rig.testbed.run(update)
    slurm_rig.testbed.wait_until(
        lambda: _shown(slurm_rig, job_id).priority == 0, 30, "the scheduler's look"
    )
    for move in (slurm_rig.cluster.hold_job, slurm_rig.cluster.release_job):
        with pytest.raises(JobChanged, match="BadConstraints"):
            move(job_id, owner=get_uid("alice"))
    shown = _shown(slurm_rig, job_id)
    assert (shown.reason, shown.priority) == ("BadConstraints", 0)


def _shown(rig: SlurmRig, job_id: JobId) -> Job:
    job = rig.cluster.fetch_queue().find_job(job_id)
    assert job is not None
    return job


def test_a_standby_of_components_is_freed_through_its_leader(slurm_rig: SlurmRig) -> None:
    slurm_rig.fill_free_node()
    half = ("-n1", "-t", "5", f"--dependency=afterany:{slurm_rig.predecessor}")
    leader = JobId(slurm_rig.testbed.sbatch(*half, ":", *half))
    slurm_rig.cluster.free_standby(leader, owner=get_uid("alice"), dependency="")
    for component in (leader, leader + 1):
        assert slurm_rig.testbed.job(component)["Dependency"] == "(null)"
    job = slurm_rig.cluster.fetch_queue().find_job(leader)
    assert job is not None
    assert job.cpus == 2


def test_a_stranger_is_refused_every_move_and_nothing_changes(
    slurm_rig: SlurmRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", put_on_path(tmp_path, "bob"))
    stranger, standby = SlurmCli(), slurm_rig.standby
    before = slurm_rig.testbed.job(standby)
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        stranger.free_standby(standby, owner=get_uid("alice"), dependency="")
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        stranger.pin_standby(standby, owner=get_uid("alice"), dependency="", node_list="gpu01")
    with pytest.raises(ClusterRefused):
        stranger.hold_job(standby, owner=get_uid("alice"))
    with pytest.raises(ClusterRefused, match="permission denied"):
        stranger.cancel_job(standby, owner=get_uid("alice"))
    assert slurm_rig.testbed.job(standby) == before


def test_cancelling_twice_is_no_error(slurm_rig: SlurmRig) -> None:
    slurm_rig.cluster.cancel_job(slurm_rig.standby, owner=get_uid("alice"))
    slurm_rig.cluster.cancel_job(slurm_rig.standby, owner=get_uid("alice"))


def test_without_slurmctld_nothing_is_known_and_afterwards_all_again(slurm_rig: SlurmRig) -> None:
    cluster = SlurmCli(backoff=BackoffSettings(first_pause_s=0.1, longest_pause_s=0.1))
    slurm_rig.testbed.stop_ctld()
    try:
        with pytest.raises(ClusterUnavailable, match="Unable to contact slurm controller"):
            cluster.fetch_queue()
        with pytest.raises(ClusterUnavailable):
            cluster.free_standby(slurm_rig.standby, owner=get_uid("alice"), dependency="")
        with pytest.raises(ClusterUnavailable):
            cluster.cancel_job(slurm_rig.standby, owner=get_uid("alice"))
    finally:
        slurm_rig.testbed.start_ctld()
    slurm_rig.testbed.wait_until(lambda: _answers(cluster), 30, "an answer")
    job = cluster.fetch_queue().find_job(slurm_rig.standby)
    assert job is not None
    assert job.dependency == f"afterany:{slurm_rig.predecessor}(unfulfilled)"


def _answers(cluster: SlurmCli) -> bool:
    try:
        cluster.fetch_queue()
    except ClusterUnavailable:
        return False
    return True


def test_without_slurmdbd_there_is_no_history_but_a_queue(slurm_rig: SlurmRig) -> None:
    slurm_rig.testbed.stop_dbd()
    try:
        with pytest.raises(ClusterUnavailable):
            SlurmCli().fetch_job_records([slurm_rig.predecessor])
        assert slurm_rig.cluster.fetch_queue().find_job(slurm_rig.predecessor) is not None
    finally:
        slurm_rig.testbed.start_dbd()
