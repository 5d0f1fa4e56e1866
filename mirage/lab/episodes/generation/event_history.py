"""Keeps the past of a simulated world. It is fed by the world's events and forked with it."""

from collections.abc import Mapping
from typing import Self

from mirage.domain.decision import RECENT_JOBS
from mirage.domain.job import compute_wait_s
from mirage.lab.episodes.generation.sim_queries import map_eligible_times
from mirage.observation.running_stats import RunningStats
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Event, EventKind, JobRecord, SimJob

StartedJob = tuple[int, int, int, int]
"""(start, wait, nodes, time limit); epoch seconds and seconds."""


class EventHistory:
    """The statistics that observations are computed from, and the waits that a rule's view has."""

    def __init__(
        self, jobs: Mapping[int, SimJob], other_partitions: frozenset[str] = frozenset()
    ) -> None:
        """`jobs`: the jobs of the trace, by id. `other_partitions`: those that are not the pair's,
        as jobs name them. Rules are not shown waits from these."""
        self.memory = RunningStats()
        self.started: list[StartedJob] = []
        self._jobs = jobs
        self._other_partitions = other_partitions

    def fork(self) -> Self:
        """Return an independent copy. It keeps the newest RECENT_JOBS of the started jobs, which is
        all that a view shows."""
        copy = type(self)(self._jobs, self._other_partitions)
        copy.memory = self.memory.fork()
        copy.started = self.started[-RECENT_JOBS:]
        return copy

    def follow_world(self, world: Simulator, until: int) -> None:
        """Advance the world, and record its events."""
        since = world.now
        self.record_events(world, world.advance(until), since)
        # A fork copies the records of ended jobs, so they are dropped once they are read.
        world.forget_ended(until)

    def record_events(self, world: Simulator, events: list[Event], since: int) -> None:
        """Record the events of the world, which was advanced from `since`."""
        if events:
            ended_records = {record.job_id: record for record in world.list_ended_since(since)}
            eligible_times = map_eligible_times(world) if _has_starts(events, ended_records) else {}
            for event in events:
                self._record_event(event, world, ended_records.get(event.job_id), eligible_times)

    def _record_event(
        self,
        event: Event,
        world: Simulator,
        ended: JobRecord | None,
        eligible_times: Mapping[int, int],
    ) -> None:
        at, kind, job_id = event
        job = self._jobs.get(job_id) or _find_pair_job(world, job_id, ended)
        if job is None or kind is EventKind.REFUSED:
            return
        nodes, limit_s = job.nodes, job.time_limit_s
        if kind is EventKind.SUBMITTED:
            self.memory.record_submit(at, nodes=nodes, time_limit_s=limit_s, user=job.user)
        elif kind is EventKind.STARTED:
            eligible_at = (ended.eligible if ended else None) or eligible_times.get(job_id, at)
            wait_s = compute_wait_s(at, job.submit, eligible_at)
            self.memory.record_start(at, wait_s=wait_s, nodes=nodes, time_limit_s=limit_s)
            if job.partition not in self._other_partitions:
                self.started.append((at, wait_s, nodes, limit_s))
        elif kind is EventKind.ENDED and ended is not None and ended.start is not None:
            self.memory.record_end(run_s=at - ended.start, time_limit_s=limit_s, user=job.user)


def _has_starts(events: list[Event], ended: Mapping[int, JobRecord]) -> bool:
    """Return whether a job that started in these events still runs."""
    return any(e.kind is EventKind.STARTED and e.job_id not in ended for e in events)


def _find_pair_job(world: Simulator, job_id: int, ended: JobRecord | None) -> SimJob | None:
    """Find the job that is not in the trace: it was injected for the pair."""
    record = ended or world.find(job_id)
    return record.job if record else None
