"""Builds a simulator from a recorded snapshot, and the future that the real cluster then had."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mirage.domain.timelimit import parse_time_limit
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    Dependency,
    NodeGroup,
    Params,
    Partition,
    Qos,
    SelectType,
    SimJob,
    build_afterany,
)
from tests.support.fidelity.recording import RUNNING, WAITING, Job, Recording, Snapshot
from tests.support.fidelity.script import Submission
from tests.support.simulator.jobs import build_planned_release

_ACCOUNTS = {"alice": "research", "bob": "research", "carol": "students"}
_SHARES = (("research", 10), ("students", 5), ("services", 1))
_UNKNOWN_RUN_S = 30 * 86400
"""The run time of jobs that still ran when the recording ended: their limit ends them."""
_MIB_PER_CPU = 4000
_LIMIT_LATE_S = 120
"""The most by which slurmctld is late to end a job at its limit: it looks every 30 s, and jobs have
KillWait. With this, such jobs end when they really did."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A pending job is pinned at an instant, or unpinned with no nodes."""

    at: int
    number: int
    nodes: tuple[int, ...]


class Site:
    """The recorded cluster as the simulator's parameters, and its jobs as the simulator's."""

    def __init__(self, recording: Recording, repeat_s: int = 0) -> None:
        self.recording = recording
        self.repeat_s = repeat_s
        """Seconds between our backfill passes without a change; 0: there are none."""
        self.params = _params(recording)
        self._tick = _tick(recording, self.params.priority_calc_period_s)
        self.numbers = {int(index): job_id for index, job_id in recording.raw["job_ids"].items()}

    def stand(self, snapshot: Snapshot, *, earlier_s: int = 0) -> Simulator:
        """Build the snapshot's cluster, with each job's real run time and cancellation to come.

        Our backfill comes `earlier_s` seconds before the real one.
        """
        running, pending = [], []
        for job in snapshot.jobs:
            if job.state == WAITING:
                pending.append((self._waiting(job), job.eligible))
            elif job.state in (RUNNING, "COMPLETING") and job.start is not None:
                running.append((self._future(_shape(job)), job.start, job.allocated))
        return Simulator.from_queue(
            self.params,
            now=snapshot.now,
            running=running,
            pending=pending,
            planned_at=None if snapshot.planned_at is None else snapshot.planned_at - earlier_s,
            usage=snapshot.usage,
            ticked_at=self._ticked_at(snapshot.now),
        )

    def _ticked_at(self, now: int) -> int:
        return now - (now - self._tick) % self.params.priority_calc_period_s

    def _waiting(self, job: Job) -> SimJob:
        return self._future(
            replace(
                _shape(job),
                priority=job.priority,
                dependencies=job.dependencies,
                any_dependency=job.any_dependency,
                node_list=job.node_list,
                held=job.priority == 0,
            )
        )

    def arrivals(self, after: int, until: int) -> Iterator[SimJob]:
        """Jobs submitted in (after, until]."""
        for index, fields in enumerate(self.recording.raw["submissions"]):
            if index not in self.numbers:
                continue
            submission = Submission(**(fields | {"node_list": tuple(fields["node_list"])}))
            for job in self._submitted(index, submission):
                if after < job.submit <= until:
                    yield job

    def _submitted(self, index: int, submission: Submission) -> Iterator[SimJob]:
        base = self.numbers[index] * 1000
        cpus = max(1, 2 * submission.gpus)
        for number in [base + task + 1 for task in range(submission.tasks)] or [base]:
            outcome = self.recording.outcomes.get(number)
            if outcome is None:  # never eligible: sacct leaves it out
                continue
            job = SimJob(
                job_id=number,
                submit=outcome.submit,
                nodes=submission.nodes,
                cpus=cpus,
                memory_mib=submission.memory_mib
                or (_MIB_PER_CPU * cpus if submission.gpus else 120_000),
                gpus=submission.gpus,
                exclusive=submission.exclusive,
                time_limit_s=submission.limit_min * 60,
                run_s=_UNKNOWN_RUN_S,
                user=submission.user,
                account=_ACCOUNTS[submission.user],
                partition=submission.partition,
                qos=submission.qos,
                nice=submission.nice,
                dependencies=self._dependencies(submission),
                any_dependency=bool(submission.release_min),
                node_list=submission.node_list,
                array_id=base // 1000 if submission.tasks else 0,
                array_limit=submission.throttle,
            )
            yield self._future(job)

    def _dependencies(self, submission: Submission) -> tuple[Dependency, ...]:
        if submission.after is None:
            return ()
        number = self.numbers[submission.after] * 1000
        if submission.release_min:
            return build_planned_release(number, submission.release_min * 60)
        return build_afterany(number)

    def _future(self, job: SimJob) -> SimJob:
        """Give the job the run time that it had, and the cancellation."""
        outcome = self.recording.outcomes.get(job.job_id)
        if outcome is None:
            return job
        if outcome.start is None:
            is_cancelled = outcome.state == "CANCELLED"
            return replace(job, cancel_at=outcome.end if is_cancelled else None)
        if outcome.end is None:
            return job
        return replace(job, run_s=outcome.end - outcome.start)

    def pins(self, after: int, until: int) -> list[Pin]:
        """Pins and unpins that the real cluster accepted in (after, until], by instant."""
        return [
            Pin(int(move["after"]), move["job_id"] * 1000, tuple(move["node_list"]))
            for move in self.recording.raw["moves"]
            if move["what"] != "cancel" and move["rc"] == 0 and after < move["after"] <= until
        ]


def _shape(job: Job) -> SimJob:
    return SimJob(
        job_id=job.number,
        submit=job.submit,
        nodes=job.nodes,
        cpus=job.cpus,
        memory_mib=job.memory_mib,
        gpus=job.gpus,
        exclusive=job.exclusive,
        time_limit_s=job.limit_s,
        run_s=_UNKNOWN_RUN_S,
        user=job.user,
        account=job.account,
        partition=job.partition,
        qos=job.qos,
        nice=job.nice,
        array_id=job.array_id,
        array_limit=job.array_limit,
    )


def _tick(recording: Recording, period_s: int) -> int:
    """Return an instant at which slurmctld counted usage: the one that gives the first snapshot's.

    slurmctld counts from its start on. That start is not known well enough, as in fast time one of
    its seconds is a minute.
    """
    first = recording.snapshots[0]
    total = sum(first.usage.values())
    started = [o for o in recording.outcomes.values() if o.start is not None]

    def off(tick: int) -> float:
        usages = (o.cpus * max(0, min(o.end or tick, tick) - (o.start or tick)) for o in started)
        return abs(sum(usages) - total)

    return min(range(first.now - period_s + 1, first.now + 1), key=off)


def _params(recording: Recording) -> Params:
    config, scheduler = recording.config, recording.scheduler
    return Params(
        name="testbed",
        slurm_version=recording.config["SLURM_VERSION"],
        nodes=8,
        node_groups=(NodeGroup(count=8, cpus=16, memory_mib=256_000, gpus=8),),
        select_type=SelectType.CONS_TRES,
        partitions=(
            Partition(name="gpu", max_time_s=2 * 86400),
            Partition(name="debug", nodes=(0,), priority_tier=2, max_time_s=1800),
            Partition(name="long"),
        ),
        qos=(
            Qos(name="normal"),
            Qos(name="high", priority=100),
            Qos(name="low", max_jobs_pu=recording.qos_limit("low")),
        ),
        shares=_SHARES,
        reservations=recording.reservations,
        priority_weight_age=int(config["PriorityWeightAge"]),
        priority_weight_job_size=int(config["PriorityWeightJobSize"]),
        priority_weight_partition=int(config["PriorityWeightPartition"]),
        priority_weight_fairshare=int(config["PriorityWeightFairShare"]),
        priority_decay_half_life_s=86400,
        priority_calc_period_s=parse_time_limit(config["PriorityCalcPeriod"]) or 300,
        accrue_always="ACCRUE_ALWAYS" in config["PriorityFlags"],
        sched_interval_s=scheduler["sched_interval"],
        default_queue_depth=scheduler["default_queue_depth"],
        bf_interval_s=scheduler["bf_interval"],
        bf_window_s=scheduler["bf_window"] * 60,
        bf_resolution_s=scheduler["bf_resolution"],
        bf_max_job_test=scheduler["bf_max_job_test"],
        over_time_limit_s=_LIMIT_LATE_S,
    )
