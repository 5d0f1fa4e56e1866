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
    """Move on, and hear of what ends."""
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
        move_on: Advance | None = None,
        seen: Callable[[int], None] = lambda _: None,
    ) -> Seconds:
        """Compute (start of the successor - end of the predecessor) for a release at each of
        `instants`.

        Instants ascend from the predecessor's start to its end. `seen(k)` is called with the world
        at the k-th instant. At the last one Slurm releases the standby by itself.
        """
        found: Seconds = np.full(len(instants), NEVER, dtype=np.int32)
        last = len(instants) - 1
        fork: Simulator | None = None
        for k, at in enumerate(instants.tolist()):
            if k == last:
                found[k] = self._run_until_started(self.sim.fork())
                # Only here is it asked what has become of the predecessor.
                (move_on or advance_with_events)(self.sim, at)
            else:
                (move_on or Simulator.advance_quietly)(self.sim, at)
            seen(k)
            if k != last:
                fork = self.sim.fork(reusable=fork)
                fork.set_dependencies(self.standby, ())
                found[k] = self._run_until_started(fork)
        return found

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
    move_on: Advance = Simulator.advance_quietly,
) -> ReplayFork | None:
    """Fork the world in which a job like `link` is submitted at `at`, later than `main.now`.

    The job waits its turn. When it starts, the standby is submitted behind it. `main` itself stays
    as it is. None if the job does not start by `at_most`, or the user has as many jobs as may be
    submitted.
    """
    sim = main.fork()
    try:
        return _submit_pair(sim, link, at, at_most, move_on)
    except ClusterRefused:
        return None


def _submit_pair(
    sim: Simulator, link: SimJob, at: int, at_most: int, move_on: Advance
) -> ReplayFork | None:
    predecessor = sim.inject(_build_job(link, at), at=at)
    start = sim.fork().run_until_started(predecessor, at_most)
    if start is None:
        return None
    move_on(sim, start)
    standby = sim.inject(_build_job(link, start, behind=predecessor))
    return ReplayFork(sim, predecessor, standby, start, start + link.time_limit_s, at_most)


def _build_job(link: SimJob, at: int, behind: int = 0) -> SimJob:
    return replace(link, job_id=0, submit=at, dependencies=build_afterany(behind) if behind else ())
