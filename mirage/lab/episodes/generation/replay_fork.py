"""One pair in a world of its own: a fork of the replay into which it is submitted."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ClusterRefused
from mirage.observation.handover_input import HandoverInput
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob, build_afterany

NEVER = np.iinfo(np.int32).max
"""The outcome of a successor that does not start."""

Advance = Callable[[Simulator, int], object]
Seconds = NDArray[np.int32]


def advance_with_events(sim: Simulator, until: int) -> object:
    """Advance, and collect the events: only so does the simulator keep records of ended jobs."""
    return sim.advance(until)


@dataclass(slots=True)
class ReplayFork:
    """A world in which the predecessor has just started, with its standby behind it as Slurm
    holds it."""

    sim: Simulator
    predecessor: int
    standby: int
    start: int
    end: int
    """The end of the predecessor's run, epoch seconds."""
    at_most: int
    """Epoch seconds. No start is waited for after this."""

    def compute_outcomes(
        self,
        instants: NDArray[np.int64],
        advance: Advance | None = None,
        on_instant: Callable[[int], None] = lambda _: None,
    ) -> Seconds:
        """Compute (start of the successor - end of the predecessor) for a release at each of
        `instants`.

        Instants ascend from the predecessor's start to its end. `on_instant(k)` is called while the
        world is at the k-th instant. At the last one Slurm releases the standby by itself. The
        outcomes are in seconds, NEVER where the successor does not start.
        """
        outcomes: Seconds = np.full(len(instants), NEVER, dtype=np.int32)
        last = len(instants) - 1
        fork: Simulator | None = None
        for k, instant in enumerate(instants.tolist()):
            if k == last:
                outcomes[k] = self._run_until_started(self.sim.fork())
                # Only `has_run_to_limit`, after the last instant, needs the predecessor's record.
                (advance or advance_with_events)(self.sim, instant)
            else:
                (advance or Simulator.advance_quietly)(self.sim, instant)
            on_instant(k)
            if k != last:
                fork = self.sim.fork(reusable=fork)
                fork.set_dependencies(self.standby, ())
                outcomes[k] = self._run_until_started(fork)
        return outcomes

    def has_run_to_limit(self) -> bool:
        """Return whether the predecessor was not cut short, once its world has come to its end."""
        record = self.sim.find(self.predecessor)
        return record is not None and (record.start, record.end) == (self.start, self.end)

    def build_handover_input(self, job: SimJob, point: int) -> HandoverInput:
        """Build the hand-over that observations are computed from. Both jobs are like `job`; the
        predecessor was submitted at `point`."""
        return HandoverInput(
            nodes=job.nodes,
            time_limit_s=job.time_limit_s,
            user=job.user,
            account=job.account,
            partition=job.partition,
            qos=job.qos,
            exclusive=job.exclusive,
            job_id=self.standby,
            submit=self.start,
            predecessor_submit=point,
            predecessor_start=self.start,
            predecessor_end=self.end,
        )

    def _run_until_started(self, fork: Simulator) -> int:
        start = fork.run_until_started(self.standby, self.at_most)
        return int(NEVER) if start is None else start - self.end


def fork_handover(
    main: Simulator,
    link: SimJob,
    at: int,
    at_most: int,
    advance: Advance = Simulator.advance_quietly,
) -> ReplayFork | None:
    """Fork the world in which a job like `link` is submitted at `at`, later than `main.now`.

    The job waits its turn. When it starts, the standby is submitted behind it. `main` itself stays
    as it is. None if the job does not start by `at_most`, or the user has as many jobs as may be
    submitted.
    """
    sim = main.fork()
    try:
        return _submit_pair(sim, link, at, at_most, advance)
    except ClusterRefused:
        return None


def _submit_pair(
    sim: Simulator, link: SimJob, at: int, at_most: int, advance: Advance
) -> ReplayFork | None:
    predecessor = sim.inject(_build_job(link, at), at=at)
    start = sim.fork().run_until_started(predecessor, at_most)
    if start is None:
        return None
    advance(sim, start)
    standby = sim.inject(_build_job(link, start, predecessor=predecessor))
    return ReplayFork(sim, predecessor, standby, start, start + link.time_limit_s, at_most)


def _build_job(link: SimJob, at: int, predecessor: int = 0) -> SimJob:
    return replace(
        link, job_id=0, submit=at, dependencies=build_afterany(predecessor) if predecessor else ()
    )
