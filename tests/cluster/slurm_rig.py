"""The real Slurm of the testbed as a cluster of two nodes, asked and moved by an Operator."""

import os
import pwd
import shutil
import time
from pathlib import Path

from mirage.cluster.cli import SlurmCli
from mirage.cluster.rest import Slurmrestd
from mirage.domain.job import JobId
from tests.slurm_testbed import Testbed, TestbedSettings

TWO_NODES = TestbedSettings(nodes=2)
_COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel")
_REAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_WHOLE_NODE = ("-N1", "--exclusive", "-t", "60")
_LONGEST_WAIT_S = 6
"""In real time the testbed's schedulers look every 2 s: three times over."""


def put_on_path(folder: Path, user: str) -> str:
    """A PATH on which Slurm's commands run as `user`; their answers depend on who asks."""
    entry = pwd.getpwnam(user)
    who = f"setpriv --reuid={entry.pw_uid} --regid={entry.pw_gid} --init-groups"
    for command in _COMMANDS:
        script = folder / command
        real = shutil.which(command, path=_REAL_PATH)
        script.write_text(f'#!/bin/sh\nexec {who} {real} "$@"\n')
        script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class SlurmRig:
    """Alice's predecessor runs on one node; her standby waits behind it."""

    def __init__(self, testbed: Testbed, cluster: SlurmCli | Slurmrestd | None = None) -> None:
        self.testbed = testbed
        self.cluster = cluster or SlurmCli()
        self.predecessor = self._running()
        self.standby = self.submit(f"--dependency=afterany:{self.predecessor}")
        testbed.wait_until(self._in_history, 30, "the predecessor in sacct's windows")

    def submit(self, *words: str) -> JobId:
        return JobId(self.testbed.sbatch(*_WHOLE_NODE, *words))

    def wait(self, seconds: int) -> None:
        time.sleep(min(seconds, _LONGEST_WAIT_S))

    def crowd(self) -> None:
        self._running()

    def _in_history(self) -> bool:
        """slurmdbd hears of a job's eligibility a moment later than of the job."""
        now = self.cluster.now()
        return any(job.job_id == self.predecessor for job in self.cluster.history(now - 60, now))

    def _running(self) -> JobId:
        job_id = self.submit()
        self.testbed.wait_until(
            lambda: self.testbed.state(job_id) == "RUNNING", 30, f"job {job_id} running"
        )
        return job_id
