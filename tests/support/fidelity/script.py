"""Draws scripts for the real cluster: submissions, pins and cancellations at fixed instants.

The same seed gives the same script. Nothing here is from a trace: jobs are drawn so that the
testbed's 8 nodes (16 CPUs, 8 GPUs each) are shared and full, and have a queue.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

_T = TypeVar("_T")

NODES = 8
GPUS = 8
_CPUS_PER_GPU = 2
_USERS = (("alice", 0.45), ("bob", 0.3), ("carol", 0.25))
# (nodes, GPUs per node) and how often
_SHAPES = (
    ((1, 1), 0.34),
    ((1, 2), 0.2),
    ((1, 4), 0.15),
    ((1, 8), 0.12),
    ((2, 8), 0.1),
    ((4, 8), 0.05),
    ((2, 4), 0.04),
)
_BIG_MEMORY = 0.12
"""Share of the one-GPU jobs that ask for half a node's memory."""
_BIG_MEMORY_MIB = 120_000
_DEBUG_LIMIT_MIN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One sbatch; instants are seconds since the script began, jobs are named by their index."""

    at: int
    user: str
    nodes: int
    gpus: int
    limit_min: int
    run_s: int
    partition: str = "gpu"
    qos: str = "normal"
    nice: int = 0
    memory_mib: int = 0
    """Per node; 0: the default for its CPUs."""
    exclusive: bool = False
    after: int | None = None
    """The submission whose end it waits for."""
    release_min: int = 0
    """With `after`, a planned release: it waits for so many minutes after that start at most."""
    node_list: tuple[int, ...] = ()
    tasks: int = 0
    throttle: int = 0

    def words(self, dependency: str | None = None) -> list[str]:
        """Return sbatch's options."""
        cpus = max(1, self.gpus * _CPUS_PER_GPU)
        words = [
            f"--nodes={self.nodes}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={cpus}",
            f"--time={self.limit_min}",
            f"--partition={self.partition}",
            f"--qos={self.qos}",
            f"--nice={self.nice}",
        ]
        words += [f"--gres=gpu:{self.gpus}"] if self.gpus else []
        words += [f"--mem={self.memory_mib}M"] if self.memory_mib else []
        words += ["--exclusive"] * self.exclusive
        words += [f"--nodelist={names(self.node_list)}"] if self.node_list else []
        words += [f"--array=0-{self.tasks - 1}%{self.throttle}"] if self.tasks else []
        words += [f"--dependency={self._dependency(dependency)}"] if dependency else []
        return words

    def _dependency(self, job_id: str) -> str:
        release = f"?after:{job_id}+{self.release_min}" if self.release_min else ""
        return f"afterany:{job_id}{release}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Something done to a submission that still waits then."""

    at: int
    what: Literal["cancel", "pin", "unpin"]
    target: int
    node_list: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Nodes kept for root from some minutes after a scene begins."""

    after_min: int
    lasts_min: int
    node_list: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How often jobs are of each kind (shares of all), and how much of them there is."""

    load: float = 1.1
    burst: int = 40
    """Jobs submitted in the first seconds, so that there is a queue from the start."""
    chained: float = 0.12
    released: float = 0.0
    """Share of the chained ones with a planned release."""
    pinned: float = 0.05
    pinned_later: float = 0.04
    cancelled: float = 0.06
    arrays: float = 0.04
    exclusive: float = 0.0
    without_gpus: float = 0.0
    limited_qos: float = 0.2
    nice: int = 0
    over_limit: float = 0.06
    mean_run_min: float = 13.0
    reservations: int = 0
    """Of a scene; how many, not a share."""


@dataclass(slots=True)
class Script:
    submissions: list[Submission] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    reservations: list[Reserved] = field(default_factory=list)


def names(nodes: tuple[int, ...]) -> str:
    """Return the testbed's names of nodes numbered from 0."""
    return ",".join(f"gpu{node + 1:02d}" for node in nodes)


def make(seed: int, duration_s: int, mix: Mix) -> Script:
    """Return a script of Poisson arrivals over `duration_s` after the burst."""
    rng = random.Random(seed)  # noqa: S311 no secret
    script = Script()
    mean_gap_s = _mean_gpu_s(mix) / (NODES * GPUS * mix.load)
    at = 0.0
    while at < duration_s:
        index = len(script.submissions)
        script.submissions.append(_submission(rng, index, int(at), mix, script))
        script.moves += _moves(rng, index, script.submissions[-1], mix)
        at += 1.0 if index < mix.burst else rng.expovariate(1 / mean_gap_s)
    script.moves.sort(key=lambda move: move.at)
    return script


def build_queue_script(seed: int, running: int, pending: int, mix: Mix) -> Script:
    """Return a script that fills the nodes and leaves about `pending` submissions waiting."""
    rng = random.Random(seed)  # noqa: S311 no secret
    script = Script()
    for index in range(running + pending):
        script.submissions.append(_submission(rng, index, 0, mix, script))
    script.reservations += [_reserved(rng) for _ in range(mix.reservations)]
    return script


def _reserved(rng: random.Random) -> Reserved:
    return Reserved(
        after_min=rng.randint(20, 400),
        lasts_min=rng.randint(20, 180),
        node_list=_consecutive(rng, rng.randint(1, 3)),
    )


def _mean_gpu_s(mix: Mix) -> float:
    # A node-filling job takes the node, a CPU job about one GPU's worth of it.
    mean = sum(nodes * max(1, gpus) * share for (nodes, gpus), share in _SHAPES)
    return mean * mix.mean_run_min * 60


def _submission(rng: random.Random, index: int, at: int, mix: Mix, script: Script) -> Submission:
    nodes, gpus = _pick(rng, _SHAPES)
    if mix.without_gpus and rng.random() < mix.without_gpus:
        nodes, gpus = 1, 0
    big_memory = gpus == 1 and rng.random() < _BIG_MEMORY
    run_s = _run_s(rng, mix)
    slack = rng.uniform(0.4, 0.95) if rng.random() < mix.over_limit else rng.uniform(1.1, 3.0)
    limit_min = max(2, round(run_s * slack / 60))
    partition = _pick(rng, (("gpu", 0.87), ("long", 0.1), ("debug", 0.03)))
    if partition == "debug":
        nodes, gpus = 1, min(gpus, 2)
        limit_min = min(limit_min, _DEBUG_LIMIT_MIN)
    tasks = rng.randint(4, 9) if rng.random() < mix.arrays and gpus <= 4 else 0
    pinned = partition != "debug" and not tasks and rng.random() < mix.pinned
    job = Submission(
        at=at,
        user=_pick(rng, _USERS),
        nodes=nodes,
        gpus=gpus,
        memory_mib=_BIG_MEMORY_MIB if big_memory else 0,
        limit_min=limit_min,
        run_s=run_s,
        partition=partition,
        qos="low" if rng.random() < mix.limited_qos else "normal",
        nice=rng.randrange(mix.nice) if mix.nice else 0,
        exclusive=rng.random() < mix.exclusive,
        after=_target(rng, script) if index > 0 and rng.random() < mix.chained else None,
        node_list=_consecutive(rng, nodes) if pinned else (),
        tasks=tasks,
        throttle=rng.randint(2, 3) if tasks else 0,
    )
    if job.after is None or not mix.released or rng.random() >= mix.released:
        return job
    limit_min = script.submissions[job.after].limit_min
    return replace(job, release_min=max(1, round(limit_min * rng.uniform(0.1, 1.1))))


def _run_s(rng: random.Random, mix: Mix) -> int:
    """Draw from a lognormal with the mix's mean, between 1.5 and 150 minutes."""
    minutes = rng.lognormvariate(0.0, 0.9) * mix.mean_run_min / 1.5
    return int(60 * min(max(minutes, 1.5), 150.0))


def _target(rng: random.Random, script: Script) -> int | None:
    recent = range(max(0, len(script.submissions) - 30), len(script.submissions))
    targets = [index for index in recent if not script.submissions[index].tasks]
    return rng.choice(targets) if targets else None


def _consecutive(rng: random.Random, count: int) -> tuple[int, ...]:
    first = rng.randrange(NODES - count + 1)
    return tuple(range(first, first + count))


def _moves(rng: random.Random, index: int, job: Submission, mix: Mix) -> list[Move]:
    moves = []
    if rng.random() < mix.cancelled:
        moves.append(Move(at=job.at + rng.randint(180, 3600), what="cancel", target=index))
    pinnable = job.partition != "debug" and not job.tasks and not job.node_list
    if pinnable and rng.random() < mix.pinned_later:
        at = job.at + rng.randint(120, 1200)
        nodes = _consecutive(rng, job.nodes)
        moves.append(Move(at=at, what="pin", target=index, node_list=nodes))
        if rng.random() < 0.5:
            moves.append(Move(at=at + rng.randint(300, 1500), what="unpin", target=index))
    return moves


def _pick(rng: random.Random, weighted: Sequence[tuple[_T, float]]) -> _T:
    values = [value for value, _ in weighted]
    return rng.choices(values, [weight for _, weight in weighted])[0]
