"""Seeded random small cases: a site, its jobs, and what is done to it from outside.

The groups, each with the rules it is heavy on: numbers (planning by number), names (planning by
name), limits, fairshare, moves, everything (all at once), and releases (what slurmctld's releases
plan unlike: many planned jobs whose ends meet on the grid, next to it, and within one window).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from mirage.simulator.types import (
    OFF,
    Dependency,
    DependencyKind,
    NodeEvent,
    NodeGroup,
    Outage,
    Params,
    Partition,
    Qos,
    Reservation,
    SelectType,
    SimJob,
)

GROUPS = ("numbers", "names", "limits", "fairshare", "moves", "everything", "releases")
SPAN_S = 15_000
"""How long a case is watched."""
_INJECTED_FROM = 1000


@dataclass(frozen=True, slots=True)
class Move:
    """A call from outside, made once the clock has come to `at`."""

    at: int
    name: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One small simulation from beginning to end."""

    group: str
    seed: int
    params: Params
    jobs: tuple[SimJob, ...]
    moves: tuple[Move, ...]
    until: int


def case_of(group: str, seed: int, version: str = "") -> Case:
    """The case of that name and number, the same for ever, on a site with that Slurm."""
    case = _Maker(group, seed).case()
    return replace(case, params=replace(case.params, slurm_version=version))


class _Maker:
    """Draws one case."""

    def __init__(self, group: str, seed: int) -> None:
        self.group = group
        self.seed = seed
        self.rng = Random(f"{group} {seed}")  # noqa: S311 - test cases, no secrets
        self.t0 = 1_000_000 + self.rng.choice((0, 7, self.rng.randrange(600)))
        if group == "releases":
            self.t0 += -self.t0 % 300 + self.rng.choice((0, 0, 0, 1, 29))
        self.names = group in {"names", "releases"} or (
            group != "numbers" and self.rng.random() < 0.5
        )
        self.nodes = self.rng.randint(2, 12)
        self.users = [f"u{i}" for i in range(self.rng.choice((1, 2, 3, 5)))]
        self.shared = self.names and self.rng.random() < 0.7
        self.fair = self.has("fairshare", 0.9)
        self.array_limits = self.rng.choices((0, 1, 3), k=2)
        self.cpus = self.rng.choice((1, 4, 8)) if self.shared else 4

    def has(self, group: str, chance: float) -> bool:
        """Whether a rule is on: often in its group and in everything, never elsewhere."""
        return self.group in {group, "everything"} and self.rng.random() < chance

    def case(self) -> Case:
        params = self.params()
        jobs = self.jobs(params)
        until = self.t0 + SPAN_S
        moves = self.moves(params, jobs) if self.has("moves", 0.9) else ()
        return Case(self.group, self.seed, params, jobs, moves, until)

    # The site

    def params(self) -> Params:
        pick = self.rng.choice
        base = Params(
            nodes=self.nodes,
            cpus_per_node=self.cpus,
            gpus_per_node=pick((0, 2, 4)),
            memory_mib_per_node=pick((0, 100)),
            partitions=self.partitions(),
            select_type=SelectType.CONS_TRES if self.shared else SelectType.LINEAR,
            max_jobs_pu=pick((0, 0, 1, 3)),
            over_time_limit_s=pick((0, 0, 0, 45, 300)),
            sched_interval_s=pick((10, 10, 60, 60, OFF)),
            default_queue_depth=pick((100, 100, 3, 1)),
            bf_interval_s=pick((10, 30, 60, 45, OFF)),
            bf_window_s=pick((300, 1800, 7200, 86400)),
            bf_resolution_s=pick((1, 7, 60, 60, 300)),
            bf_max_job_test=pick((500, 500, 10, 2)),
            bf_max_job_user=pick((0, 0, 0, 2)),
        )
        if self.group == "releases":
            base = replace(base, **self.planning())
        base = replace(base, **self.weights())
        return replace(base, **self.site_rules())

    def planning(self) -> dict[str, Any]:
        """A backfill that plans all of the queue, with maps of few steps."""
        pick = self.rng.choice
        return {
            "max_jobs_pu": 0,
            "bf_interval_s": pick((30, 60, 60)),
            "bf_window_s": pick((600, 1800, 7200)),
            "bf_resolution_s": pick((60, 60, 60, 300)),
            "bf_max_job_test": 500,
            "bf_max_job_user": 0,
        }

    def weights(self) -> dict[str, Any]:
        pick = self.rng.choice
        return {
            "priority_weight_age": pick((0, 1000, 7000)),
            "priority_max_age_s": pick((100, 900, 86400)),
            "priority_weight_job_size": pick((0, 100, 1000)),
            "priority_favor_small": pick((True, False)),
            "priority_weight_partition": pick((0, 500)),
            "priority_weight_qos": pick((0, 500)),
            "priority_weight_fairshare": pick((1000, 50_000)) if self.fair else 0,
            "priority_decay_half_life_s": pick((600, 86400)),
            "priority_calc_period_s": pick((60, 300)),
            "accrue_always": pick((True, False)),
            "shares": pick(((), (("a", 3),), (("a", 2), ("b", 5)))),
        }

    def site_rules(self) -> dict[str, Any]:
        rules: dict[str, Any] = {}
        if self.has("limits", 0.9):
            rules["qos"] = self.qos()
        if self.shared and self.rng.random() < 0.2 and self.nodes > 2:
            rules["node_groups"] = self.node_groups()
        if self.names and self.rng.random() < 0.4:
            rules["reservations"] = tuple(self.reservation() for _ in range(self.rng.randint(1, 3)))
        if self.has("moves", 0.5):
            rules["node_events"] = self.node_events()
        return rules

    def partitions(self) -> tuple[Partition, ...]:
        if self.rng.random() < 0.4:
            return (Partition(),)
        return tuple(self.partition(f"p{i}") for i in range(self.rng.randint(1, 4)))

    def partition(self, name: str) -> Partition:
        some = self.names and self.rng.random() < 0.7
        nodes = self.rng.sample(range(self.nodes), self.rng.randint(1, self.nodes)) if some else []
        return Partition(
            name=name,
            nodes=tuple(sorted(nodes)),
            priority_tier=self.rng.choice((1, 1, 2)),
            priority_job_factor=self.rng.randint(0, 3),
            max_time_s=self.rng.choice((0, 0, 900)),
            exclusive=self.rng.random() < 0.15,
        )

    def qos(self) -> tuple[Qos, ...]:
        pick = self.rng.choice
        return tuple(
            Qos(
                name=f"q{i}",
                priority=pick((0, 1, 5)),
                max_jobs_pu=pick((0, 0, 2)),
                max_submit_pu=pick((0, 0, 4)),
                max_cpus_pu=pick((0, 0, 8)),
                max_memory_mib_pu=pick((0, 0, 150)),
                max_gpus_pu=pick((0, 0, 4)),
                max_nodes_pu=pick((0, 0, 3)),
            )
            for i in range(self.rng.randint(1, 3))
        )

    def node_groups(self) -> tuple[NodeGroup, ...]:
        """Two kinds; jobs ask for what the smaller kind has, but for now and then one."""
        first = self.rng.randint(1, self.nodes - 1)
        big = NodeGroup(count=first, cpus=2 * self.cpus, memory_mib=200, gpus=4)
        return (big, NodeGroup(count=self.nodes - first, cpus=self.cpus, memory_mib=100, gpus=0))

    def reservation(self) -> Reservation:
        start = self.t0 + self.rng.choice((-100, 0, self.rng.randrange(6000)))
        some = self.rng.sample(range(self.nodes), self.rng.randint(0, self.nodes))
        end = start + self.rng.choice((60, 600, 1777, 5000))
        return Reservation(start=start, end=end, nodes=tuple(sorted(some)))

    def node_events(self) -> tuple[NodeEvent, ...]:
        seen: dict[tuple[int, int], NodeEvent] = {}
        for _ in range(self.rng.randint(1, 8)):
            at = self.t0 + self.rng.randrange(5000)
            node = self.rng.randrange(self.nodes)
            seen[at, node] = NodeEvent(at, node, self.rng.choice(tuple(Outage)))
            back = at + self.rng.randint(1, 3000)
            seen[back, node] = NodeEvent(back, node, Outage.RESUME)
        return tuple(sorted(seen.values(), key=lambda e: e.at))

    # The jobs

    def jobs(self, params: Params) -> tuple[SimJob, ...]:
        count = self.rng.choice((5, 12, 12, 25, 25, 40, 60))
        ids = self.rng.sample(range(1, 500), count)
        gap = self.rng.choice((0, 0, 5, 20) if self.group == "releases" else (0, 20, 100, 300))
        jobs: list[SimJob] = []
        at = self.t0
        for job_id in ids:
            jobs.append(self.job(params, job_id, at, [j.job_id for j in jobs]))
            at += self.rng.randint(0, gap)
        return tuple(jobs)

    def job(self, params: Params, job_id: int, at: int, others: list[int]) -> SimJob:
        limit = self.rng.choice((1, 60, 300, 600, 1800, self.rng.randint(1, 2000)))
        partition = self.rng.choice((params.partitions[0], self.rng.choice(params.partitions)))
        room = len(partition.nodes) or self.nodes
        if self.group == "releases":
            limit = 60 * self.rng.choice((1, 2, 5, 5, 10, 15)) + self.rng.choice(
                (0, 0, 0, -1, 1, 10, 25)
            )
        if partition.max_time_s and self.rng.random() < 0.9:
            limit = min(limit, partition.max_time_s)
        job = SimJob(
            job_id=job_id,
            submit=at,
            nodes=min(room, self.rng.choice((1, 1, 1, 2, 3, self.nodes))),
            time_limit_s=limit,
            run_s=self.rng.choice((limit, limit + 9, 0, 1, self.rng.randint(0, limit))),
            fails=self.rng.random() < 0.2,
            user=self.rng.choice(self.users),
            account=self.rng.choice(("", "a", "b")) if self.group != "numbers" else "",
            partition="" if partition is params.partitions[0] else partition.name,
            qos=self.rng.choice(("", self.rng.choice(params.qos).name)) if params.qos else "",
            nice=self.rng.choice((0, 0, 0, 50, -50)),
        )
        if self.shared:
            job = replace(job, **self.tres(params))
        return replace(job, **self.job_rules(params, job, others))

    def tres(self, params: Params) -> dict[str, Any]:
        """What it asks of each node; where these differ, some for more than the smallest has."""
        gpus = 4 if params.node_groups else params.gpus_per_node
        cpus = self.cpus * (2 if params.node_groups and self.rng.random() < 0.1 else 1)
        return {
            "exclusive": self.rng.random() < 0.1,
            "cpus": self.rng.randint(0, cpus),
            "memory_mib": self.rng.choice((0, 0, 20, 70)),
            "gpus": self.rng.choice((0, 0, min(1, gpus), gpus)),
        }

    def job_rules(self, params: Params, job: SimJob, others: list[int]) -> dict[str, Any]:
        rules: dict[str, Any] = {}
        moves = self.group in {"moves", "everything"}
        often = 0.15 if moves else 0.05
        if others and self.rng.random() < often:
            rules["dependencies"] = self.dependencies(others)
            rules["any_dependency"] = self.rng.random() < 0.3
        if self.rng.random() < often:
            rules["begin"] = job.submit + self.rng.randint(-50, 1500)
        if self.rng.random() < often:
            rules["cancel_at"] = job.submit + self.rng.randint(-5, 1000)
        if self.rng.random() < often:
            rules["node_list"] = self.node_list(params, job)
        if moves:
            rules["held"] = self.rng.random() < 0.05
            rules["requeue"] = self.rng.random() < 0.7
        if self.group in {"limits", "everything", "releases"} and self.rng.random() < 0.4:
            array_id = self.rng.choice((1, 2))
            rules["array_id"] = array_id
            rules["array_limit"] = self.array_limits[array_id - 1]
        if job.submit == self.t0 and self.rng.random() < 0.05:
            rules["priority"] = self.rng.randrange(5000)
        return rules

    def dependencies(self, others: list[int]) -> tuple[Dependency, ...]:
        kinds = tuple(DependencyKind)
        count = self.rng.choice((1, 1, 2))
        return tuple(
            Dependency(self.rng.choice(kinds), self.rng.choice(others), self.delay_s())
            for _ in range(count)
        )

    def delay_s(self) -> int:
        """Whole minutes in Slurm; the simulator takes any second."""
        return self.rng.choice((0, 0, 60, self.rng.randint(1, 1500)))

    def node_list(self, params: Params, job: SimJob) -> tuple[int, ...]:
        """Mostly a list that is in order."""
        named = [p for p in params.partitions if p.name == job.partition]
        partition = named[0] if named else params.partitions[0]
        nodes = partition.nodes or tuple(range(self.nodes))
        return tuple(sorted(self.rng.sample(nodes, min(job.nodes, len(nodes)))))

    # What is done from outside

    def moves(self, params: Params, jobs: tuple[SimJob, ...]) -> tuple[Move, ...]:
        span = jobs[-1].submit + 1500 - self.t0
        times = sorted(self.t0 + self.rng.randrange(span) for _ in range(self.rng.randint(1, 15)))
        by_id = {j.job_id: j for j in jobs}
        return tuple(self.move(i, at, params, by_id) for i, at in enumerate(times))

    def move(self, i: int, at: int, params: Params, by_id: dict[int, SimJob]) -> Move:
        here = [j.job_id for j in by_id.values() if j.submit <= at]
        job_id = self.rng.choice(here[-12:])
        name = self.rng.choice(
            (
                "inject",
                "inject",
                "remove",
                "requeue",
                "set_dependencies",
                "set_node_list",
                "hold",
                "release",
                "set_node",
            )
        )
        args: tuple[Any, ...] = (job_id,)
        options = {}
        if name == "inject":
            args = self.injection(i, at, params, by_id)
        elif name == "set_dependencies":
            args = (job_id, self.dependencies([j for j in by_id if j != job_id]))
            options = {"any_of": self.rng.random() < 0.3}
        elif name == "set_node_list":
            args = (job_id, self.node_list(params, by_id[job_id]))
        elif name == "set_node":
            args = (self.rng.randrange(self.nodes), self.rng.choice(tuple(Outage)))
        return Move(at, name, args, options)

    def injection(
        self, i: int, at: int, params: Params, by_id: dict[int, SimJob]
    ) -> tuple[Any, ...]:
        """At once or later."""
        later = self.rng.choice((0, 0, self.rng.randint(1, 900)))
        job = self.job(params, _INJECTED_FROM + i, at + later, list(by_id))
        job = replace(job, priority=None)
        by_id[job.job_id] = job
        return (job, at + later) if later else (job,)
