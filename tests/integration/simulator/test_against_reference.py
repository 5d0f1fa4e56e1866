"""The simulator gives the same life to every job as the brute force does, on thousands of cases."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import simulator_workloads as workloads
from mirage.simulator.simulator import Simulator
from mirage.simulator.slurm_release import SlurmRelease
from mirage.simulator.types import Params, SimJob
from tests.integration.simulator.cases import GROUPS
from tests.integration.simulator.compare import differences
from tests.support.paths import CHECKOUT
from tests.support.simulator.reference.reference import Reference

SEEDS = dict.fromkeys(GROUPS, 250) | {"releases": 500}
"""Of each group; every fourth is also asked for its plan and its order in between, and of the
releases' group each."""


@pytest.mark.parametrize("version", [str(release) for release in SlurmRelease])
@pytest.mark.parametrize("group", GROUPS)
def test_every_job_has_the_life_that_the_reference_gives_it(group: str, version: str) -> None:
    assert list(differences(0, SEEDS[group] - 1, (group,), version)) == []


def differing_starts(params: Params, jobs: list[SimJob]) -> list[int]:
    sim = Simulator(params, jobs)
    sim.run_out()
    reference = Reference(params, jobs)
    reference.advance(int(sim.start.max()))
    ours = dict(zip((job.job_id for job in jobs), sim.start.tolist(), strict=True))
    return [number for number, start in ours.items() if reference.start(number) != start]


def test_a_large_site_is_planned_by_number_as_the_reference_plans_it() -> None:
    """The short PriorityMaxAge lets ages saturate, which reorders the queue between events."""
    table = workloads.generate_whole_nodes(200, 1.05, seed=1)
    params = workloads.build_whole_node_params(priority_max_age_s=6 * 3600, default_queue_depth=3)
    assert differing_starts(params, workloads.build_jobs(table)) == []


@pytest.mark.parametrize("version", [str(release) for release in SlurmRelease])
def test_a_large_site_is_planned_by_name_as_the_reference_plans_it(version: str) -> None:
    table = workloads.generate_named_nodes(200, 1.05, seed=1)
    params = workloads.build_named_node_params(version, default_queue_depth=3)
    partitions = np.array([one.name for one in params.partitions])[table.partition].tolist()
    jobs = [
        replace(job, partition=name)
        for job, name in zip(workloads.build_jobs(table), partitions, strict=True)
    ]
    assert differing_starts(params, jobs) == []


def test_the_same_functions_run_as_plain_python() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.integration.simulator.compare", "0", "7"]
    run = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "0 of 56 cases differ\n", "")
