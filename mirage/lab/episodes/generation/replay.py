"""The trace replayed once, and the worlds of hand-overs that are forked off it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, Self, TypeVar

from mirage.judging.table.pair_settings import PairSettings, build_pair_job
from mirage.lab.episodes.generation.event_history import EventHistory
from mirage.lab.episodes.generation.replay_fork import ReplayFork, fork_handover
from mirage.observation.queue_view import get_partition_number
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

PATIENCE_S = 366 * 86400
"""A start is waited for until this many seconds after the trace's last submission."""


class ReplayListener(Protocol):
    """Advances a world and records its events."""

    def follow_world(self, world: Simulator, until: int) -> None: ...
    def fork(self) -> Self: ...


Listener = TypeVar("Listener", bound=ReplayListener)


class TraceReplay:
    """One replay of the trace. Worlds must be asked for in the order of their start points,
    since the replay only moves forward."""

    def __init__(self, params: Params, jobs: Sequence[SimJob], settings: PairSettings) -> None:
        settings.check_feasible(params)
        submissions = [job.submit for job in jobs] or [settings.since]
        self.link = build_pair_job(settings)
        self.trace_end = max(submissions)
        self.at_most = max(self.trace_end, settings.until) + PATIENCE_S
        """Epoch seconds. No start is waited for after this."""
        first = min(*submissions, settings.since) - 1
        all_jobs = [*jobs, self._build_account_holder(jobs)]
        self._main = Simulator(params, Workload.from_jobs(params, all_jobs), now=first)
        pair_partition = get_partition_number(params, settings.partition)
        other_partitions = {p.name for p in params.partitions} - {
            params.partitions[pair_partition].name
        }
        if pair_partition:
            # A job that names no partition goes to the first.
            other_partitions.add("")
        self._past = EventHistory(
            {job.job_id: job for job in all_jobs}, frozenset(other_partitions)
        )

    def _build_account_holder(self, jobs: Sequence[SimJob]) -> SimJob:
        """Build a job that is submitted after the end of the replay. It makes the pair's user
        known to fair share from the beginning."""
        job_id = 1 + max((job.job_id for job in jobs), default=0)
        return replace(self.link, job_id=job_id, submit=self.at_most + PATIENCE_S)

    def fork_at(self, point: int) -> tuple[ReplayFork | None, EventHistory]:
        """Fork the world whose predecessor is submitted at `point`, with the history up to its
        start.

        None if the predecessor never starts.
        """
        return self.fork_with_listener(point, self._past)

    def fork_with_listener(
        self, point: int, listener: Listener
    ) -> tuple[ReplayFork | None, Listener]:
        """Fork a world with another listener. `listener` has followed the replay so far, and its
        fork goes on in the world."""
        listener.follow_world(self._main, point - 1)
        forked_listener = listener.fork()
        return fork_handover(
            self._main, self.link, point, self.at_most, forked_listener.follow_world
        ), forked_listener

    def fork_without_history(self, point: int) -> ReplayFork | None:
        """Fork a world without a history. This is several times faster."""
        self._main.advance_quietly(point - 1)
        return fork_handover(self._main, self.link, point, self.at_most)
