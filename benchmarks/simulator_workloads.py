"""The seeded workloads of benchmarks/simulator.py: sizes, limits, run times, arrivals, users."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirage.simulator.packing.workload import JobColumns
from mirage.simulator.types import Params, Partition, Qos, SelectType, SimJob

EPOCH = 1767571200
"""Monday 2026-01-05 00:00 UTC."""
NODES = 128
GPUS_PER_NODE, CPUS_PER_NODE = 4, 64
USERS, ACCOUNTS = 200, 12

_HOUR_S = 3600
_ONE_NODE_SHARE = 0.37
_SIZE_FALL = 0.655
"""Share of 2^(k+1) nodes over that of 2^k: the mean size is about 8.7."""
_JITTER = 0.2
_SECOND_PARTITION_SHARE = 0.3
_RUN_MEDIAN_S, _RUN_SIGMA = 40 * 60, 1.6
_RUN_RANGE_S = (30, 48 * _HOUR_S)
_LIMITS_MIN = np.array((15, 30, 60, 120, 240, 480, 720, 1440, 2880))
_GENEROUS_MIN = np.array((720, 1440, 2880))
_GENEROUS_USERS, _HITS = 0.2, 0.05
_HOURS = (3, 2, 2, 2, 2, 2, 3, 4, 6, 8, 9, 9, 8, 9, 9, 9, 8, 7, 6, 5, 5, 4, 4, 3)
_WEEKDAYS = (10, 11, 11, 11, 10, 5, 5)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Table:
    """One row a job, by submission: epoch seconds, nodes, seconds, seconds, user and partition
    number."""

    submit: Ints
    nodes: Ints
    limit_s: Ints
    run_s: Ints
    user: Ints
    partition: Ints

    def __len__(self) -> int:
        return len(self.submit)


def generate_whole_nodes(
    count: int, load: float, *, seed: int = 0, nodes: int = NODES, widest: int = NODES
) -> Table:
    """Generate `count` jobs that offer `load` of the machine, on average over their arrival."""
    rng = np.random.default_rng(seed)
    user = np.minimum(rng.zipf(1.4, count) - 1, USERS - 1)
    size = np.minimum(_draw_sizes(rng, count), min(nodes, widest))
    drawn_s = rng.lognormal(np.log(_RUN_MEDIAN_S), _RUN_SIGMA, count)
    run_s = np.clip(drawn_s, *_RUN_RANGE_S).astype(np.int64)
    limit_s = _draw_limits_s(rng, run_s, user)
    hits = rng.random(count) < _HITS
    run_s = np.asarray(np.where(hits, limit_s, np.minimum(run_s, limit_s)))
    span_s = float((size * run_s).sum()) / (load * nodes)
    partition = np.zeros(count, np.int64)
    return Table(_draw_arrivals(rng, count, span_s), size, limit_s, run_s, user, partition)


def generate_at_once(running: int, pending: int, *, nodes: int, seed: int = 0) -> Table:
    """Generate a full machine and a queue: `running` jobs at EPOCH, then the `pending` ones.

    The first ones have limits spread over two days and end evenly over them.
    """
    rng = np.random.default_rng(seed)
    waiting = generate_whole_nodes(pending, 1.0, seed=seed, nodes=nodes)
    limit_s = rng.integers(2, 48 * 60, running) * 60
    return Table(
        np.concatenate((np.full(running, EPOCH), EPOCH + 1 + np.arange(pending) // 1000)),
        np.concatenate((np.full(running, nodes // running), waiting.nodes)),
        np.concatenate((limit_s, waiting.limit_s)),
        np.concatenate((limit_s, waiting.run_s)),
        np.concatenate((np.zeros(running, np.int64), waiting.user)),
        np.zeros(running + pending, np.int64),
    )


def generate_named_nodes(count: int, load: float, *, seed: int = 0) -> Table:
    """Generate jobs like `generate_whole_nodes`; three in ten are in the second partition.

    No job is wider than that partition.
    """
    table = generate_whole_nodes(count, load, seed=seed, widest=NODES // 2)
    is_in_second = np.random.default_rng(seed + 1).random(count) < _SECOND_PARTITION_SHARE
    return replace(table, partition=is_in_second.astype(np.int64))


def build_jobs(table: Table) -> list[SimJob]:
    """Build jobs for whole nodes of one partition; job ids are row numbers from 1."""
    rows = zip(*(c.tolist() for c in (table.submit, table.nodes, table.limit_s)), strict=True)
    return [
        SimJob(job_id=i, submit=submit, nodes=nodes, time_limit_s=limit_s, run_s=run_s)
        for i, ((submit, nodes, limit_s), run_s) in enumerate(
            zip(rows, table.run_s.tolist(), strict=True), start=1
        )
    ]


def build_columns(table: Table, partitions: Sequence[Partition] = ()) -> JobColumns:
    """Build columns of jobs, without an object for each. The table numbers `partitions`."""
    names = (
        {"partition": np.array([p.name for p in partitions])[table.partition]} if partitions else {}
    )
    return JobColumns(
        submit=table.submit,
        nodes=table.nodes,
        time_limit_s=table.limit_s,
        run_s=table.run_s,
        **names,
    )


def build_whole_node_params(nodes: int = NODES, **settings: int) -> Params:
    """Slurm's defaults but for 1,000 tests: the settings of the study's "Slurm mode"."""
    params = Params(nodes=nodes, cpus_per_node=CPUS_PER_NODE, bf_max_job_test=1000)
    return replace(params, **settings)  # type: ignore[arg-type] # every one of them is an int


OVERLAPPING = (Partition(), Partition(name="long", nodes=tuple(range(NODES // 2))))
"""With these Slurm plans by the names of the nodes."""


def build_named_node_params(slurm_version: str = "", **settings: int) -> Params:
    """Build parameters as `build_whole_node_params`, with two partitions that share nodes."""
    params = build_whole_node_params(**settings)
    return replace(params, partitions=OVERLAPPING, slurm_version=slurm_version)


def build_shared_params() -> Params:
    """Everything on: two partitions that share nodes, fair share, limits, GPU packing."""
    return Params(
        nodes=NODES,
        gpus_per_node=GPUS_PER_NODE,
        cpus_per_node=CPUS_PER_NODE,
        select_type=SelectType.CONS_TRES,
        partitions=(OVERLAPPING[0], replace(OVERLAPPING[1], priority_job_factor=2)),
        qos=(Qos(max_jobs_pu=64, max_gpus_pu=256),),
        priority_weight_partition=500,
        priority_weight_fairshare=10_000,
        bf_max_job_test=1000,
    )


def generate_shared_jobs(count: int, load: float, *, seed: int = 0) -> list[SimJob]:
    """Generate jobs: of one-node jobs, four in five ask for one to three GPUs; wider ones for all.

    No job is wider than what its user may have at once: it would wait for ever.
    """
    table = generate_whole_nodes(count, load, seed=seed, widest=NODES // 2)
    rng = np.random.default_rng(seed + 1)
    takes_part = (table.nodes == 1) & (rng.random(count) < 0.8)
    gpus = np.where(takes_part, rng.choice((1, 1, 2, 3), count), GPUS_PER_NODE)
    # Parts of nodes are less work: arrivals are drawn together until the load is as asked.
    work = float((table.nodes * table.run_s * gpus).sum()) / GPUS_PER_NODE
    pace = work / float((table.nodes * table.run_s).sum())
    submit = EPOCH + ((table.submit - EPOCH) * pace).astype(np.int64)
    is_in_long = rng.random(count) < _SECOND_PARTITION_SHARE
    return [
        SimJob(
            job_id=i + 1,
            submit=int(submit[i]),
            nodes=int(table.nodes[i]),
            cpus=int(gpus[i]) * CPUS_PER_NODE // GPUS_PER_NODE,
            gpus=int(gpus[i]),
            time_limit_s=int(table.limit_s[i]),
            run_s=int(table.run_s[i]),
            user=f"u{table.user[i]:03}",
            account=f"a{table.user[i] % ACCOUNTS:02}",
            partition="long" if is_in_long[i] else "batch",
        )
        for i in range(count)
    ]


def _draw_sizes(rng: np.random.Generator, count: int) -> Ints:
    share = _SIZE_FALL ** np.arange(1, 8)
    powers = 2 ** rng.choice(np.arange(1, 8), count, p=share / share.sum())
    jitter = rng.uniform(1 - _JITTER, 1 + _JITTER, count)
    wide = np.clip(np.rint(powers * jitter), 2, NODES)
    return np.where(rng.random(count) < _ONE_NODE_SHARE, 1, wide).astype(np.int64)


def _draw_limits_s(rng: np.random.Generator, run_s: Ints, user: Ints) -> Ints:
    """Draw the next round limit above the run time or a later one; some users ask for long ones."""
    least_class = np.searchsorted(_LIMITS_MIN * 60, run_s)
    extra_classes = rng.choice((0, 1, 1, 2, 2), len(run_s))
    usual_limit_min = _LIMITS_MIN[np.minimum(least_class + extra_classes, len(_LIMITS_MIN) - 1)]
    is_generous = user % round(1 / _GENEROUS_USERS) == 1
    long_limit_min = np.maximum(usual_limit_min, rng.choice(_GENEROUS_MIN, len(run_s)))
    return np.asarray(np.where(is_generous, long_limit_min, usual_limit_min) * 60)


def _draw_arrivals(rng: np.random.Generator, count: int, span_s: float) -> Ints:
    """Draw ascending arrivals with the rhythm of the day and the week."""
    by_hour = np.outer(_WEEKDAYS, _HOURS).ravel()
    hours = int(span_s // _HOUR_S) + 1
    weight = np.resize(by_hour, hours).astype(np.float64)
    weight[-1] *= span_s / _HOUR_S - (hours - 1)
    arrival_share = np.concatenate(([0.0], weight.cumsum())) / weight.sum()
    edges = np.minimum(np.arange(hours + 1) * _HOUR_S, span_s)
    return EPOCH + np.interp(np.sort(rng.random(count)), arrival_share, edges).astype(np.int64)
