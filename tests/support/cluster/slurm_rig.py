"""The real Slurm of the testbed as a cluster of two nodes, asked and moved by an Operator."""

import os
import pwd
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from mirage.domain.job import JobId
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.restd.client import Slurmrestd
from tests.support.slurm_testbed import Testbed, TestbedFailure, TestbedSettings


def get_uid(user: str) -> int:
    return pwd.getpwnam(user).pw_uid


TWO_NODES = TestbedSettings(nodes=2)
_COMMANDS = ("squeue", "sinfo", "sacct", "sacctmgr", "scontrol", "scancel")
_REAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_UP = frozenset({"idle", "allocated", "mixed", "completing", "planned"})
_WHOLE_NODE = ("-N1", "--exclusive", "-t", "60")
_LONGEST_WAIT_S = 4
"""Twice the interval at which the testbed's schedulers look, in real time."""


def put_on_path(folder: Path, user: str) -> str:
    """Return a PATH on which Slurm's commands run as `user`; their answers depend on the caller."""
    entry = pwd.getpwnam(user)
    command_prefix = f"setpriv --reuid={entry.pw_uid} --regid={entry.pw_gid} --init-groups"
    for command in _COMMANDS:
        script = folder / command
        program = shutil.which(command, path=_REAL_PATH)
        script.write_text(f'#!/bin/sh\nexec {command_prefix} {program} "$@"\n')
        script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class SlurmRig:
    """Alice's predecessor runs on one node; her standby waits behind it."""

    def __init__(self, testbed: Testbed, predecessor: JobId) -> None:
        self.testbed = testbed
        self.cluster = SlurmCli()
        self.predecessor = predecessor
        self.standby = self.submit(f"--dependency=afterany:{self.predecessor}")

    def submit(self, *words: str) -> JobId:
        return submit(self.testbed, *words)

    def wait(self, seconds: int) -> None:
        time.sleep(min(seconds, _LONGEST_WAIT_S))

    def until(self, condition: Callable[[], bool], seconds: int) -> None:
        self.testbed.wait_until(condition, seconds, "what the test waits for")

    def fill_free_node(self) -> None:
        submit_running_job(self.testbed)

    def submit_for_nodes(self, node_list: str) -> JobId:
        return self.submit(f"--dependency=afterany:{self.predecessor}", f"--nodelist={node_list}")

    def requested_nodes(self, job_id: JobId) -> str:
        value = self.testbed.job(job_id)["ReqNodeList"]
        return "" if value == "(null)" else value

    def place_hold(self, job_id: JobId, *, admin: bool = False) -> None:
        verb, user = ("hold", "root") if admin else ("uhold", "alice")
        self.testbed.run(["scontrol", verb, str(job_id)], user=user)

    def lift_hold(self, job_id: JobId) -> None:
        self.testbed.run(["scontrol", "release", str(job_id)])


class RestRig:
    """The same scene, reached through slurmrestd."""

    def __init__(self, scene: SlurmRig, cluster: Slurmrestd) -> None:
        self.cluster = cluster
        self.predecessor, self.standby = scene.predecessor, scene.standby
        self.wait, self.until, self.fill_free_node = scene.wait, scene.until, scene.fill_free_node
        self.submit_for_nodes, self.requested_nodes = scene.submit_for_nodes, scene.requested_nodes
        self.place_hold, self.lift_hold = scene.place_hold, scene.lift_hold


class Stage:
    """Sets the scene again for each test; a predecessor that runs yet is kept, which saves time."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._predecessor: JobId | None = None

    def set(self) -> SlurmRig:
        # A cluster in which it runs is the one it was: a switch of settings forgets all jobs.
        if self._predecessor is None or not self._is_running(self._predecessor):
            self._testbed.up(TWO_NODES)
            self._testbed.cancel_all()
            self._predecessor = submit_running_job(self._testbed)
            self._testbed.wait_until(self._in_history, 30, "the predecessor in sacct's windows")
        self._testbed.wait_until(self._nodes_answer, 60, "the nodes")
        self._clear(self._predecessor)
        return SlurmRig(self._testbed, self._predecessor)

    def _is_running(self, job_id: JobId) -> bool:
        """Return whether the job runs; False if slurmctld does not answer or is a new one."""
        try:
            return self._testbed.state(job_id) == "RUNNING"
        except (LookupError, TestbedFailure):
            return False

    def _nodes_answer(self) -> bool:
        """Return whether all nodes are up. After a restart slurmctld hears of them one by one.

        A node whose state ends in `-` is planned for a job that waits.
        """
        states = self._testbed.run(["sinfo", "-h", "-N", "-o", "%T"]).stdout
        return {state.removesuffix("-") for state in states.split()} <= _UP

    def _clear(self, predecessor: JobId) -> None:
        other_jobs = [job_id for job_id in self._list_jobs() if job_id != str(predecessor)]
        if other_jobs:
            self._testbed.run(["scancel", "--quiet", *other_jobs], check=False)
            self._testbed.wait_until(
                lambda: self._list_jobs() == [str(predecessor)], 60, "the others' end"
            )

    def _list_jobs(self) -> list[str]:
        return self._testbed.run(["squeue", "-h", "-o", "%A"]).stdout.split()

    def _in_history(self) -> bool:
        """Return whether accounting has the predecessor: slurmdbd learns its eligibility late."""
        cluster = SlurmCli()
        now = cluster.read_clock()
        return any(job.job_id == self._predecessor for job in cluster.fetch_history(now - 60, now))


def submit(testbed: Testbed, *words: str) -> JobId:
    """Submit a job of alice's that takes a whole node."""
    return JobId(testbed.sbatch(*_WHOLE_NODE, *words))


def submit_running_job(testbed: Testbed) -> JobId:
    job_id = submit(testbed)
    testbed.wait_until(lambda: testbed.state(job_id) == "RUNNING", 30, f"job {job_id} running")
    return job_id
