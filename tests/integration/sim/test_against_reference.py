"""The simulator gives the same life to every job as the brute force does, on thousands of cases."""

import os
import subprocess
import sys

import pytest

from mirage.sim.slurm_release import SlurmRelease
from tests.integration.sim.cases import GROUPS
from tests.integration.sim.compare import differences
from tests.support.paths import CHECKOUT

SEEDS = dict.fromkeys(GROUPS, 250) | {"releases": 500}
"""Of each group; every fourth is also asked for its plan and its order in between, and of the
releases' group each."""


@pytest.mark.parametrize("version", [str(release) for release in SlurmRelease])
@pytest.mark.parametrize("group", GROUPS)
def test_every_job_has_the_life_that_the_reference_gives_it(group: str, version: str) -> None:
    assert list(differences(0, SEEDS[group] - 1, (group,), version)) == []


def test_the_same_functions_run_as_plain_python() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.integration.sim.compare", "0", "7"]
    run = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "0 of 56 cases differ\n", "")
