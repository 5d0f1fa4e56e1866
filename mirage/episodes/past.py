"""What has happened in a simulated world so far: fed by its events, forked with it."""

from collections.abc import Iterable
from typing import Self

from mirage.domain.timelimit import UNLIMITED
from mirage.episodes.deciding import RECENT_JOBS
from mirage.features.memory import Memory
from mirage.sim.simulator import Simulator
from mirage.sim.types import Event, EventKind, Record

StartedJob = tuple[int, int, int, int]
"""Start, wait, nodes, time limit."""


class Past:
    """The memory that observations are made from, and the waits that rules are shown."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.started: list[StartedJob] = []

    def fork(self) -> Self:
        """An independent twin that remembers as much as anybody will ask of it."""
        twin = type(self)()
        twin.memory = self.memory.fork()
        twin.started = self.started[-RECENT_JOBS:]
        return twin

    def follow(self, world: Simulator, until: int) -> None:
        """Advance the world, and take in what happens."""
        self._take_in(world, world.advance(until))
        # A fork copies what is told of ended jobs.
        world.forget_ended(until)

    def _take_in(self, world: Simulator, events: Iterable[Event]) -> None:
        for event in events:
            # One that is refused was never in the queue.
            record = None if event.kind is EventKind.REFUSED else world.find(event.job_id)
            if record is not None:
                self._saw(event, record)

    def _saw(self, event: Event, record: Record) -> None:
        job = record.job
        limit_s = min(job.time_limit_s, UNLIMITED)
        if event.kind is EventKind.SUBMITTED:
            self.memory.saw_submit(event.at, nodes=job.nodes, time_limit_s=limit_s, user=job.user)
        elif event.kind is EventKind.STARTED:
            since = max(
                record.submit, record.submit if record.eligible is None else record.eligible
            )
            wait_s = max(0, event.at - since)
            self.memory.saw_start(event.at, wait_s=wait_s, nodes=job.nodes, time_limit_s=limit_s)
            self.started.append((event.at, wait_s, job.nodes, limit_s))
        elif event.kind is EventKind.ENDED and record.start is not None:
            run_s = event.at - record.start
            self.memory.saw_end(run_s=run_s, time_limit_s=limit_s, user=job.user)
