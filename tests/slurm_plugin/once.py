"""A queue of the fake Slurm that runs every job once, in the order of submission."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import dataclass, field

import pytest

from tests.slurm_plugin.fakes import PLUGIN, Call, FakeSlurm


@dataclass(slots=True)
class Queue:
    """Jobs are numbered as the fake sbatch does: the first call's is 101."""

    slurm: FakeSlurm
    done: list[subprocess.CompletedProcess[bytes]] = field(default_factory=list)

    def run(self, *, most: int = 30) -> int:
        """Run what stands, and what that submits; the number of jobs that have run."""
        while len(self.done) < min(most, len(self.slurm.calls())):
            self._run(len(self.done))
        return len(self.done)

    def _run(self, at: int) -> None:
        job, call = 101 + at, self.slurm.calls()[at]
        (self.slurm.root / f"begun.{job}").touch()
        script = self.slurm.root / "calls" / str(at + 1) / "script"
        if not call.script:  # of --wrap
            script.write_text("#!/bin/sh\n")
        script.chmod(0o700)
        # Slurm's variables of one job are not those of the job that submitted it.
        env = {name: v for name, v in call.env.items() if not name.startswith("SLURM_")}
        self.done.append(
            subprocess.run(
                [script, *arguments(call)],
                cwd=call.cwd,
                env=env | {"SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "lab"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=60,
            )
        )
        self.slurm.job_is(job, "COMPLETED", start=0, end=1000)


def arguments(call: Call) -> list[str]:
    """What stands behind the script, by the plugin's own reading of sbatch's words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PLUGIN)
        reading = importlib.import_module("mirage_options").read(call.argv)
    return [] if reading.script is None else call.argv[reading.script + 1 :]


def is_carrier(call: Call) -> bool:
    return b"\n# mirage carrier " in call.script[:200]
