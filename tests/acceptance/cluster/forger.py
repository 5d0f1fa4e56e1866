"""bob on the service's host: a process of his that forges rows in what Slurm tells Mirage.

It is a compiled program (forger.c), since it must be faster than the squeue that it sees begin.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mirage.domain.job import JobId
from mirage.slurm.commands import squeue
from tests.support.slurm_testbed import Testbed

_SOURCE = Path(__file__).with_name("forger.c")
SEPARATORS = ("\x1f", "|", "\n", "\t", "\t\t", "\x1e")
"""Written all the time, whatever the command lines tell."""


@dataclass(frozen=True, slots=True)
class Lie:
    """A job as one of bob's rows tells it; `uid` None: not a row, but a separator astray."""

    job_id: JobId
    submit: int
    uid: int | None
    user: str
    comment: str

    def row(self) -> dict[str, str]:
        """By the names that squeue and sacct have for their fields."""
        if self.uid is None:
            return {}
        told = {"JobID": self.job_id, "JobIDRaw": self.job_id, "ArrayTaskID": "N/A"}
        told |= {"HetJobID": "N/A", "UserName": self.user, "User": self.user, "UserID": self.uid}
        told |= {"UID": self.uid, "Account": "research", "Partition": "gpu", "QOS": "normal"}
        told |= {"State": "PENDING", "Reason": "Priority", "PriorityLong": 1, "Priority": 1}
        told |= {"SubmitTime": self.submit, "Submit": self.submit, "TimeLimit": "1:00:00"}
        told |= {"EligibleTime": self.submit, "Eligible": self.submit, "StartTime": "N/A"}
        told |= {"Start": "Unknown", "EndTime": "N/A", "End": "Unknown", "TimelimitRaw": 60}
        told |= {"NumNodes": 1, "NumCPUs": 1, "NNodes": 1, "NCPUS": 1, "tres-alloc": "cpu=1"}
        told |= {"tres-per-node": "N/A", "tres-per-job": "N/A", "ExitCode": "0:0"}
        told |= {"tres-per-task": "N/A", "NumTasks": 1, "tres-per-socket": "N/A", "Sockets": "*"}
        told |= {"Name": "lie", "JobName": "lie", "Comment": self.comment, "SubmitLine": "sbatch x"}
        return {name: str(value) for name, value in told.items()}


@dataclass
class Forger:
    process: subprocess.Popen[str]
    did: dict[str, int]
    """What it says of itself, once it has ended."""


def waiting_job(testbed: Testbed, *words: str) -> JobId:
    """A job of bob's, eligible and without a place: its texts are his to write."""
    return JobId(testbed.sbatch("-N2", "--exclusive", "-t", "5", *words, user="bob"))


@contextmanager
def at_work(testbed: Testbed, lies: Sequence[Lie]) -> Iterator[Forger]:
    """bob's process, with a job of his for each lie."""
    with tempfile.TemporaryDirectory(prefix="mirage-forger-") as name:
        folder = Path(name)
        shutil.chown(folder, "bob")
        folder.chmod(0o755)
        program, orders, report = folder / "forger", folder / "orders", folder / "report"
        orders.write_text(_orders(testbed, lies))
        words = ["gcc", "-O2", "-Wall", "-Werror", "-o", str(program), str(_SOURCE)]
        subprocess.run([*words, "-lslurm", "-lpthread"], check=True)
        with (folder / "log").open("w") as log:
            argv = [str(program), str(orders), str(report)]
            forger = Forger(testbed.popen(argv, user="bob", output=log), {})
        try:
            yield forger
            assert forger.process.poll() is None, (folder / "log").read_text()
        finally:
            forger.process.terminate()
            forger.process.wait(60)
            forger.did |= json.loads(report.read_text()) if report.exists() else {}


def _orders(testbed: Testbed, lies: Sequence[Lie]) -> str:
    lines = [
        "cluster testbed",
        f"separators {' '.join(word.encode().hex() for word in SEPARATORS)}",
    ]
    lines += [f"fields {','.join(squeue.FIELDS)}", f"decoy {waiting_job(testbed)}"]
    for lie in lies:
        row = "".join(f"\t{name}={value}" for name, value in lie.row().items())
        lines.append(f"target {waiting_job(testbed)}{row}")
    return "\n".join(lines) + "\n"
