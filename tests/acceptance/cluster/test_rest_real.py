"""Slurmrestd on the real one of the testbed, started as an unprivileged user with JWT.

What every cluster does is in test_contract.py, which runs on it as well.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from mirage.cluster.cli.client import SlurmCli
from mirage.cluster.query_gate import BackoffSettings
from mirage.cluster.rest.client import Slurmrestd
from mirage.cluster.rest.http import RestHttp
from mirage.cluster.rest.token import TokenFile
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.submission import Submission
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError
from mirage.ports import Cluster
from mirage.slurm.rest import submit_options
from tests.support.cluster.rest_host import RestHost, only, started
from tests.support.cluster.slurm_rig import SlurmRig, uid_of

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
        stranger.free_standby(standby, owner=uid_of("alice"), dependency="")
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        stranger.pin_standby(standby, owner=uid_of("alice"), dependency="", node_list="gpu01")
    with pytest.raises(ClusterRefused, match="denied"):
        stranger.cancel_job(standby, owner=uid_of("alice"))
    assert slurm_rig.testbed.job(standby) == before


def test_a_users_environment_and_node_list_survive_the_moves(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    testbed, cluster = slurm_rig.testbed, rest_host.cluster()
    folder = testbed.run(["mktemp", "-d"], user="alice").stdout.strip()
    words = ("-n1", "-t", "5", "--nodelist=gpu02", "--export=ALL,MARK=a b", "-o", f"{folder}/out")
    own = f"--dependency=afterany:{slurm_rig.predecessor}"
    standby = JobId(testbed.sbatch(*words, own, run="env -0 | tr '\\0' '\\n'"))
    cluster.free_standby(standby, owner=uid_of("alice"), dependency="")
    testbed.wait_until(lambda: testbed.state(standby) == "COMPLETED", 30, "the standby's end")
    assert testbed.job(standby)["ReqNodeList"] == "gpu02"
    assert "MARK=a b\n" in testbed.run(["cat", f"{folder}/out"], user="alice").stdout


WORK = Submission(
    script='#!/bin/sh\nid -un; pwd; echo "$MARK"\n',
    environment={"PATH": "/usr/bin:/bin", "MARK": "a=b; $(id)"},
    directory="/home/alice",
    name="link; two",
    comment="mirage:abcdefgh:2",
    options={"partition": "gpu", "time": "5", "gres": "gpu:2", "output": "rest-%j.out"},
)


def test_a_job_is_submitted_as_its_user(slurm_rig: SlurmRig, rest_host: RestHost) -> None:
    testbed = slurm_rig.testbed
    folder = testbed.run(["mktemp", "-d"], user="alice").stdout.strip()
    job_id = rest_host.cluster().submit_job(replace(WORK, directory=folder), user="alice")
    testbed.wait_until(lambda: testbed.state(job_id) == "COMPLETED", 30, "its end")
    shown = testbed.job(job_id)
    assert shown["UserId"].startswith("alice(")
    assert shown["GroupId"].startswith("alice(")
    assert (shown["Comment"].strip(), shown["TimeLimit"]) == (WORK.comment, "00:05:00")
    said = testbed.run(["cat", f"{folder}/rest-{job_id}.out"], user="alice").stdout
    assert said == f"alice\n{folder}\na=b; $(id)\n"


def test_the_scripts_own_arguments_reach_it(slurm_rig: SlurmRig, rest_host: RestHost) -> None:
    testbed, cluster = slurm_rig.testbed, rest_host.cluster()
    folder = testbed.run(["mktemp", "-d"], user="alice").stdout.strip()
    words = ("first", "b c", "")
    job = replace(WORK, directory=folder, arguments=words, script='#!/bin/sh\nprintf "%s|" "$@"\n')
    if not cluster.get_dialect().has_triples:
        with pytest.raises(InputError, match="ends when a script comes with arguments"):
            cluster.submit_job(job, user="alice")
        return
    job_id = cluster.submit_job(job, user="alice")
    testbed.wait_until(lambda: testbed.state(job_id) == "COMPLETED", 30, "its end")
    said = testbed.run(["cat", f"{folder}/rest-{job_id}.out"], user="alice").stdout
    assert said == "first|b c||"


def test_a_job_of_which_something_is_ignored_is_taken_back(
    slurm_rig: SlurmRig, rest_host: RestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that no release has."""
    monkeypatch.setitem(submit_options.LATER, "tmp", lambda text: {"nonsense": text})
    monkeypatch.setitem(submit_options.EARLIEST, "tmp", lambda text: {"nonsense": text})
    job = replace(WORK, options={"tmp": "1", "partition": "gpu"})
    with pytest.raises(InputError, match="nonsense"):
        rest_host.cluster().submit_job(job, user="alice")
    running = ["squeue", "-h", "-t", "PD,R", "-n", WORK.name]
    assert slurm_rig.testbed.run(running).stdout == ""


def test_where_it_serves_no_accounting_scontrol_says_whether_there_is_any(
    slurm_rig: SlurmRig, rest_host: RestHost
) -> None:
    """The site of these tests has one."""
    version = rest_host.cluster().get_dialect().version
    words = [word.partition(",")[0] for word in only(slurm_rig.testbed, version)]
    more = [] if words[0] == "-s" else ["-s", "openapi/slurmctld"]
    with started(slurm_rig.testbed, *words, *more) as host:
        with pytest.raises(ClusterUnavailable, match="start it without -s"):
            host.cluster(commands=SlurmCli()).fetch_job_records([slurm_rig.standby])
        assert host.cluster().fetch_queue().find_job(slurm_rig.standby)


def test_a_submission_that_slurm_refuses_is_told(slurm_rig: SlurmRig, rest_host: RestHost) -> None:
    with pytest.raises(ClusterRefused, match="Invalid partition name"):
        rest_host.cluster().submit_job(
            replace(WORK, options={"partition": "nowhere"}), user="alice"
        )


def test_one_users_token_submits_nothing_for_another(rest_host: RestHost) -> None:
    forged = replace(rest_host.token("alice", 60), user="bob")
    cluster = Slurmrestd(
        RestHttp(rest_host.socket, identity=lambda: rest_host.token("mirage")),
        user_token=lambda _: forged,
    )
    with pytest.raises((ClusterUnavailable, ClusterRefused)):
        cluster.submit_job(WORK, user="bob")
    assert rest_host.testbed.run(["squeue", "-h", "-u", "alice,bob", "-n", WORK.name]).stdout == ""


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
        patience=BackoffSettings(first_pause_s=0.1, longest_pause_s=0.1),
    )
    slurm_rig.testbed.stop_dbd()
    slurm_rig.testbed.stop_ctld()
    try:
        with pytest.raises(ClusterUnavailable, match="connect to database"):
            impatient.fetch_job_records([slurm_rig.predecessor])
        with pytest.raises(ClusterUnavailable):
            impatient.free_standby(slurm_rig.standby, owner=uid_of("alice"), dependency="")
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
