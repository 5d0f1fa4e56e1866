"""What the twin foretold at a table's instants, however the work was cut up."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.tables import twin_tables
from tests.support.episodes import small


class Stopped(Exception):
    """Ctrl-C, after the first block."""


def test_an_interrupted_run_ends_as_a_whole_one(tmp_path: Path) -> None:
    # Users that come one after another: who was seen when is not the same in every process.
    params, trace = small.params(max_jobs_pu=0), small.trace(3, load=1.6)
    first = trace[0].submit
    jobs = [
        replace(job, user=f"u{(job.submit - first) // 14400}_{i % 3}")
        for i, job in enumerate(trace)
    ]
    table = small.build_episodes(params, jobs, small.settings(every_s=5000))
    asking = twin_tables.build_request(table, params, jobs, samples=10)
    whole = twin_tables.make_twin_table(asking, tmp_path / "whole.twin.npz", LocalProcesses(1))
    done = []

    def told(count: int) -> None:
        done.append(count)
        if len(done) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        twin_tables.make_twin_table(asking, tmp_path / "cut.twin.npz", LocalProcesses(1), told)
    resumed = twin_tables.make_twin_table(asking, tmp_path / "cut.twin.npz", LocalProcesses(1))
    np.testing.assert_array_equal(resumed.quantile_s, whole.quantile_s)
    by_two = twin_tables.make_twin_table(asking, tmp_path / "two.twin.npz", LocalProcesses(2))
    np.testing.assert_array_equal(by_two.quantile_s, whole.quantile_s)
