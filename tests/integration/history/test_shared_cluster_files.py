"""The cluster files that results are compared on."""

import pytest

from mirage.history.cluster_files.reader import load_cluster_params
from mirage.simulator.types import Params
from tests.support.paths import SHARED

CLUSTER_FILES = SHARED / "clusters"


@pytest.mark.skipif(
    not CLUSTER_FILES.is_dir(), reason=f"no shared cluster files at {CLUSTER_FILES}"
)
@pytest.mark.parametrize(
    ("name", "nodes", "gpus", "jobs", "window_days"),
    [("ls6", 76, 3, 8, 2), ("theta", 4392, 0, 0, 7), ("thetagpu", 24, 8, 0, 7)],
)
def test_the_files_that_results_are_compared_on_read_as_they_are(
    name: str, nodes: int, gpus: int, jobs: int, window_days: int
) -> None:
    assert load_cluster_params(CLUSTER_FILES / f"{name}.toml") == Params(
        name=name,
        nodes=nodes,
        gpus_per_node=gpus,
        max_jobs_pu=jobs,
        bf_window_s=window_days * 86400,
        bf_max_job_test=1000,
    )
