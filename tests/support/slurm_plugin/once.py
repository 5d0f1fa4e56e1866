"""A queue of the fake Slurm that runs every job once, in the order of submission."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import dataclass, field

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import Call, FakeSlurm


@dataclass(slots=True)
class Queue:
    """Jobs are numbered as the fake sbatch does: the first call's is 101."""

    slurm: FakeSlurm
    done: list[subprocess.CompletedProcess[bytes]] = field(default_factory=list)

    def run(self, *, most: int = 30) -> int:
        """Run the queued jobs, and the jobs that these submit. Return how many have run."""
        while len(self.done) < min(most, len(self.slurm.calls())):
            self._run(len(self.done))
        return len(self.done)

    def _run(self, index: int) -> None:
        job, call = 101 + index, self.slurm.calls()[index]
        (self.slurm.root / f"begun.{job}").touch()
        script = self.slurm.root / "calls" / str(index + 1) / "script"
        if not call.script:  # of --wrap
            script.write_text("#!/bin/sh\n")
        script.chmod(0o700)
        env = handed_down(self.slurm, call)
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


def handed_down(slurm: FakeSlurm, call: Call) -> dict[str, str]:
    """Return the environment that a job gets. With --export=ALL it is that of the submission, less
    what Slurm sets anew; else only variables that begin with SLURM, and those of a login."""
    variables = {n: v for n, v in call.env.items() if not n.startswith("SLURM_") or "MIRAGE" in n}
    if all(word == "--export=ALL" for word in call.argv if word.startswith("--export=")):
        return variables
    return slurm.environ | {n: v for n, v in variables.items() if n.startswith("SLURM")}


def arguments(call: Call) -> list[str]:
    """Return the words after the script, as the plugin reads sbatch's words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PLUGIN)
        reading = importlib.import_module("mirage_slurm.wrapper.options").read_words(call.argv)
    return [] if reading.script is None else call.argv[reading.script + 1 :]


def is_carrier(call: Call) -> bool:
    return b"\n# mirage carrier " in call.script[:200]
