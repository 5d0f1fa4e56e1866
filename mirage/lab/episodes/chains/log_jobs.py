"""The waits of a log's jobs in a replay, in the form that a policy's view has."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.decision import RECENT_JOBS, Waits
from mirage.simulator.packing.workload import Workload


@dataclass(frozen=True, slots=True)
class LogJobs:
    """Columns of the log's jobs: submission (epoch seconds), nodes, time limit (seconds)."""

    submit: Ints
    nodes: Ints
    time_limit_s: Ints

    @classmethod
    def from_workload(cls, workload: Workload) -> Self:
        nodes = np.array([job.nodes for job in workload.jobs], dtype=np.int64)
        limits = np.array([job.time_limit_s for job in workload.jobs], dtype=np.int64)
        return cls(workload.submit, nodes, limits)

    def collect_waits(self, start: Ints) -> Waits:
        """Return the newest RECENT_JOBS of the jobs that have started; `start` is the simulator's
        column."""
        rows = np.flatnonzero(start >= 0)
        rows = rows[np.argsort(start[rows], kind="stable")[-RECENT_JOBS:]]
        return Waits(
            start=start[rows],
            wait_s=start[rows] - self.submit[rows],
            nodes=self.nodes[rows],
            time_limit_s=self.time_limit_s[rows],
        )
