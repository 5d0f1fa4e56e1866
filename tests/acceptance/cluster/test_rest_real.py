"""Slurmrestd on the real one of the testbed, started as an unprivileged user with JWT.

What every cluster does is in test_contract.py, which runs on it as well.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.ports import Cluster
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.clients.restd.token import TokenFile
from tests.support.cluster.rest_host import RestHost, build_version_options, running_slurmrestd
from tests.support.cluster.slurm_rig import SlurmRig, get_uid

pytestmark = pytest.mark.slurm
T = TypeVar("T")


def test_both_ways_tell_the_same_of_the_same_cluster(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    slurm_rig.submit("--array=1-5%2", "--comment=mirage:abcdefgh:1")
    slurm_rig.testbed.sbatch("-n1", "-t", "5", ":", "-n1", "-t", "5")
    commands, rest = slurm_rig.cluster, rest_host.cluster()
    now = commands.read_clock()
    told_jobs, shown_jobs = _of_one_moment(slurm_rig, rest, _jobs)
    assert told_jobs == shown_jobs
    told_nodes, shown_nodes = _of_one_moment(slurm_rig, rest, _nodes)
    assert told_nodes == shown_nodes

    def same_history() -> bool:
        """slurmctld tells slurmdbd a little later: between the two questions, on a busy host."""
        told, shown = (
            {_known(job, rest) for job in way.fetch_history(now - 60, now + 1)}
            for way in (rest, commands)
        )
        return told == shown and slurm_rig.predecessor in {job.job_id for job in told}

    slurm_rig.testbed.wait_until(same_history, 60, "the same history")


def _of_one_moment(rig: SlurmRig, rest: Slurmrestd, read: Callable[[Cluster], T]) -> tuple[T, T]:
    """What each way tells, where the commands told the same before and after: Slurm goes on."""
    answers: list[tuple[T, T]] = []

    def stood_still() -> bool:
        before, told, after = read(rig.cluster), read(rest), read(rig.cluster)
        answers.append((told, after))
        return before == after

    rig.testbed.wait_until(stood_still, 60, "a moment in which nothing changed")
    return answers[-1]


def _jobs(cluster: Cluster) -> dict[int, Job]:
    """Without planned starts, which move, and without CPUs of ended jobs, which REST leaves out."""
    return {job.job_id: _settled(job) for job in cluster.fetch_queue()}


def _settled(job: Job) -> Job:
    job = replace(job, cpus=0) if job.state.has_ended else job
    return job if job.state.is_running else replace(job, start=None)


def _nodes(cluster: Cluster) -> list[tuple[object, ...]]:
    names = ("name", "state", "cpus", "cpus_used", "gpus", "gpus_used")
    nodes = cluster.fetch_nodes()
    return sorted((*(getattr(node, n) for n in names), sorted(node.partitions)) for node in nodes)


def _known(job: Job, rest: Slurmrestd) -> Job:
    """Records hold no uids; those of v0.0.38 neither submit lines nor exit codes of failures."""
    job = replace(job, uid=None)
    return job if rest.get_dialect().has_triples else replace(job, submit_line="", exit_code="")


def test_tcp_serves_as_the_socket_does(slurm_rig: SlurmRig, rest_host: RestHost) -> None:
    over_tcp = rest_host.cluster(url=rest_host.tcp).fetch_queue()
    assert over_tcp.find_job(slurm_rig.standby) == slurm_rig.cluster.fetch_queue().find_job(
        slurm_rig.standby
    )


def test_slurmctlds_count_is_of_the_tokens_user(rest_host: RestHost) -> None:
    cluster = rest_host.cluster()
    cluster.fetch_nodes()
    told, user = cluster.fetch_diagnosis()
    assert sum(row.calls for row in told.users if row.user == user) > 0
    again, _ = cluster.fetch_diagnosis()
    assert again.at >= told.at > 0


def test_a_stranger_is_refused_every_move_and_nothing_changes(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    stranger, standby = rest_host.cluster("bob"), slurm_rig.standby
    before = slurm_rig.testbed.job(standby)
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        stranger.free_standby(standby, owner=get_uid("alice"), dependency="")
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        stranger.pin_standby(standby, owner=get_uid("alice"), dependency="", node_list="gpu01")
    with pytest.raises(ClusterRefused, match="denied"):
        stranger.cancel_job(standby, owner=get_uid("alice"))
    assert slurm_rig.testbed.job(standby) == before


def test_a_users_environment_and_node_list_survive_the_moves(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    testbed, cluster = slurm_rig.testbed, rest_host.cluster()
    folder = testbed.run(["mktemp", "-d"], user="alice").stdout.strip()
    words = ("-n1", "-t", "5", "--nodelist=gpu02", "--export=ALL,MARK=a b", "-o", f"{folder}/out")
    own = f"--dependency=afterany:{slurm_rig.predecessor}"
    standby = JobId(testbed.sbatch(*words, own, run="env -0 | tr '\\0' '\\n'"))
    cluster.free_standby(standby, owner=get_uid("alice"), dependency="")
    testbed.wait_until(lambda: testbed.state(standby) == "COMPLETED", 30, "the standby's end")
    assert testbed.job(standby)["ReqNodeList"] == "gpu02"
    assert "MARK=a b\n" in testbed.run(["cat", f"{folder}/out"], user="alice").stdout


def test_where_it_serves_no_accounting_scontrol_says_whether_there_is_any(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    """The site of these tests has one."""
    version = rest_host.cluster().get_dialect().version
    words = [word.partition(",")[0] for word in build_version_options(slurm_rig.testbed, version)]
    more = [] if words[0] == "-s" else ["-s", "openapi/slurmctld"]
    with running_slurmrestd(slurm_rig.testbed, *words, *more) as host:
        with pytest.raises(ClusterUnavailable, match="start it without -s"):
            host.cluster(commands=SlurmCli()).fetch_job_records([slurm_rig.standby])
        assert host.cluster().fetch_queue().find_job(slurm_rig.standby)


def test_without_a_token_the_caller_is_not_known(rest_host: RestHost) -> None:
    with pytest.raises(ClusterUnavailable, match=r"does not know the caller.*HTTP 401"):
        Slurmrestd(RestHttp(rest_host.socket)).fetch_queue()


def test_an_old_token_gives_no_queue(rest_host: RestHost) -> None:
    old = rest_host.token("mirage", 1)
    assert old.expires is not None
    rest_host.testbed.wait_until(lambda: time.time() > (old.expires or 0) + 1, 10, "its end")
    with pytest.raises(ClusterUnavailable):
        Slurmrestd(RestHttp(rest_host.socket, identity=lambda: old)).fetch_queue()


def test_without_the_daemons_nothing_is_known_and_afterwards_all_again(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    token = TokenFile(rest_host.token_file("mirage")).load_token
    impatient = Slurmrestd(
        RestHttp(rest_host.socket, timeout_s=2, identity=token),
        backoff=BackoffSettings(first_pause_s=0.1, longest_pause_s=0.1),
    )
    slurm_rig.testbed.stop_dbd()
    slurm_rig.testbed.stop_ctld()
    try:
        with pytest.raises(ClusterUnavailable, match="connect to database"):
            impatient.fetch_job_records([slurm_rig.predecessor])
        with pytest.raises(ClusterUnavailable):
            impatient.free_standby(slurm_rig.standby, owner=get_uid("alice"), dependency="")
    finally:
        slurm_rig.testbed.start_dbd()
        slurm_rig.testbed.start_ctld()
    slurm_rig.testbed.wait_until(lambda: _answers(impatient), 30, "an answer")
    job = impatient.fetch_queue().find_job(slurm_rig.standby)
    assert job is not None
    assert (job.state, job.reason) == (JobState.PENDING, "Dependency")
    assert SlurmCli().fetch_queue().find_job(slurm_rig.standby) == job


def _answers(cluster: Slurmrestd) -> bool:
    try:
        cluster.fetch_queue()
    except ClusterUnavailable:
        return False
    return True
