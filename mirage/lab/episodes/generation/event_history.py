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
    """The memory that observations are made from, and the waits that rules are shown."""

    def __init__(self, jobs: Mapping[int, SimJob], elsewhere: frozenset[str] = frozenset()) -> None:
        """`jobs`: the jobs of the trace, by id. `elsewhere`: partitions, as jobs name them, that
        are not the pair's. Rules are not shown waits from these."""
        self.memory = RunningStats()
        self.started: list[StartedJob] = []
        self._jobs = jobs
        self._elsewhere = elsewhere

    def fork(self) -> Self:
        """Return an independent copy that remembers as much as anybody will ask of it."""
        twin = type(self)(self._jobs, self._elsewhere)
        twin.memory = self.memory.fork()
        twin.started = self.started[-RECENT_JOBS:]
        return twin

    def follow_world(self, world: Simulator, until: int) -> None:
        """Advance the world, and record its events."""
        since = world.now
        self.record_events(world, world.advance(until), since)
        # A fork copies what is told of ended jobs.
        world.forget_ended(until)

    def record_events(self, world: Simulator, events: list[Event], since: int) -> None:
        """Record the events of the world, which was advanced from `since`."""
        if events:
            ended = {record.job_id: record for record in world.list_ended_since(since)}
            eligible = map_eligible_times(world) if _has_starts(events, ended) else {}
            for event in events:
                self._record_event(event, world, ended.get(event.job_id), eligible)

    def _record_event(
        self, event: Event, world: Simulator, ended: JobRecord | None, eligible: Mapping[int, int]
    ) -> None:
        at, kind, job_id = event
        job = self._jobs.get(job_id) or _find_pair_job(world, job_id, ended)
        if job is None or kind is EventKind.REFUSED:
            return
        nodes, limit_s = job.nodes, job.time_limit_s
        if kind is EventKind.SUBMITTED:
            self.memory.record_submit(at, nodes=nodes, time_limit_s=limit_s, user=job.user)
        elif kind is EventKind.STARTED:
            since = (ended.eligible if ended else None) or eligible.get(job_id, at)
            wait_s = compute_wait_s(at, job.submit, since)
            self.memory.record_start(at, wait_s=wait_s, nodes=nodes, time_limit_s=limit_s)
            if job.partition not in self._elsewhere:
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
