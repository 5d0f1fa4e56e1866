"""The regimes of `benchmarks.positions`: Lonestar6's log on sites with other settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.decision import Waits
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads.replay import load_workload
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, Partition, SelectType, SimJob

SHARED = Path(__file__).resolve().parents[2] / "shared"
TRACE = SHARED / "traces" / "tacc-ls6-a100.parquet"
HOUR_S, DAY_S = 3600, 86400
SINCE = int(datetime(2022, 11, 7, tzinfo=UTC).timestamp())
UNTIL = int(datetime(2023, 2, 7, tzinfo=UTC).timestamp())
LIMIT_S = 48 * HOUR_S
SHARED_GPUS = (1, 1, 2, 3)
"""The GPUs, of three, that one-node jobs ask for if nodes are shared: by job number, evenly."""

BY_NAME: Mapping[str, Any] = {
    "select_type": SelectType.CONS_TRES,
    "partitions": (Partition(exclusive=True),),
}
"""Whole nodes, planned by name as slurmctld does (docs/reference/simulator.md 7)."""
FAIR: Mapping[str, Any] = {"priority_weight_fairshare": 10000, "priority_weight_age": 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Changes of clusters/ls6.toml, and the user of the chains."""

    name: str
    changes: Mapping[str, Any]
    heavy: bool = False
    """The chain's user is the one with the most node-hours of the log; else one of its own."""
    shared: bool = False
    """One-node jobs of the log share nodes."""
    gpus: int = 0
    """GPUs of each of the link's nodes; 0: whole nodes."""


REGIMES = (
    Regime(name="age", changes=BY_NAME),
    Regime(name="age, planned by number", changes={}),
    Regime(name="age, ACCRUE_ALWAYS", changes={**BY_NAME, "accrue_always": True}),
    Regime(name="fair share, own user", changes={**BY_NAME, **FAIR}),
    Regime(
        name="fair share, heaviest user", changes={**BY_NAME, **FAIR, "max_jobs_pu": 0}, heavy=True
    ),
    Regime(
        name="fair share, heaviest user, ACCRUE_ALWAYS",
        changes={**BY_NAME, **FAIR, "max_jobs_pu": 0, "accrue_always": True},
        heavy=True,
    ),
    Regime(
        name="age, shared nodes, whole-node links",
        changes={"select_type": SelectType.CONS_TRES},
        shared=True,
    ),
    Regime(
        name="age, shared nodes, links of 1 GPU of 3",
        changes={"select_type": SelectType.CONS_TRES},
        shared=True,
        gpus=1,
    ),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A regime's cluster and log."""

    regime: Regime
    params: Params
    jobs: tuple[SimJob, ...]

    @classmethod
    def from_regime(cls, regime: Regime) -> "Site":
        params = replace(load_cluster_params(SHARED / "clusters" / "ls6.toml"), **regime.changes)
        jobs = tuple(load_workload(TRACE, params).jobs)
        if not regime.shared:
            return cls(regime, params, jobs)
        sharing_jobs = tuple(_share_nodes(job) for job in jobs)
        gpu_share = sum(j.nodes * j.gpus for j in sharing_jobs) / sum(
            j.nodes * j.gpus for j in jobs
        )
        # Fewer nodes, or nobody would wait.
        return cls(regime, replace(params, nodes=round(params.nodes * gpu_share)), sharing_jobs)

    @property
    def user(self) -> str:
        """Return the user of the chains; empty: each chain has a user of its own."""
        if not self.regime.heavy:
            return ""
        node_seconds: dict[str, float] = {}
        for job in self.jobs:
            if SINCE <= job.submit < UNTIL:
                run_s = min(job.run_s, job.time_limit_s)
                node_seconds[job.user] = node_seconds.get(job.user, 0.0) + job.nodes * run_s
        return max(node_seconds, key=lambda user: node_seconds[user])


def _share_nodes(job: SimJob) -> SimJob:
    """Let a one-node job ask for some of the GPUs of its node. A node never has too few CPUs."""
    if job.nodes > 1:
        return job
    return replace(job, gpus=SHARED_GPUS[job.job_id % len(SHARED_GPUS)])


def build_wait_reader(params: Params, jobs: Sequence[SimJob]) -> Callable[[int], Waits]:
    """Build a reader of the waits of the last 1000 jobs started by an instant, without any pair."""
    sim = Simulator(params, Workload.from_jobs(params, jobs))
    sim.run_out()
    rows = np.flatnonzero(sim.start >= 0)
    rows = rows[np.argsort(sim.start[rows], kind="stable")]
    started_jobs = [sim.workload.jobs[i] for i in rows.tolist()]
    start, wait_s = sim.start[rows], (sim.start - sim.workload.submit)[rows]
    nodes = np.array([j.nodes for j in started_jobs], dtype=np.int64)
    limits = np.array([j.time_limit_s for j in started_jobs], dtype=np.int64)

    def read_waits(now: int) -> Waits:
        end = int(np.searchsorted(start, now, side="right"))
        last_rows = slice(max(0, end - 1000), end)
        return Waits(
            start=start[last_rows],
            wait_s=wait_s[last_rows],
            nodes=nodes[last_rows],
            time_limit_s=limits[last_rows],
        )

    return read_waits


def list_run_shares(jobs: Sequence[SimJob]) -> np.ndarray:
    """List run time over limit of the jobs of a day or more, submitted in the training weeks."""
    long_jobs = (j for j in jobs if j.time_limit_s >= DAY_S and SINCE <= j.submit < UNTIL)
    return np.array([min(1.0, j.run_s / j.time_limit_s) for j in long_jobs if j.cancel_at is None])
