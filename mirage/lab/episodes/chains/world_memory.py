"""The past of a simulated world, from which observations and the twin's forecasts are computed.

Rules need no past, and a world that records none runs several times faster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Observation
from mirage.domain.decision import PolicyView
from mirage.domain.ports import Needs
from mirage.lab.episodes.generation.event_history import EventHistory
from mirage.observation import feature_vector
from mirage.observation.handover_input import HandoverInput
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob
from mirage.twin.forecast import Twin
from mirage.twin.futures.submission_history import SubmissionHistory
from mirage.twin.table_forecasts import compute_question_step


class WorldMemory:
    """The source of observations and of the twin's futures. It follows one world, and is forked
    with that world."""

    def __init__(self, jobs: Mapping[int, SimJob], since: int) -> None:
        """`jobs`: the trace's, by id. All of them are submitted after `since`, epoch seconds."""
        self._jobs = jobs
        self.past, self.history = EventHistory(jobs), SubmissionHistory(since)

    def fork(self) -> Self:
        copy = type(self)(self._jobs, self.history.since)
        copy.past, copy.history = self.past.fork(), self.history.fork()
        return copy

    def follow_world(self, world: Simulator, until: int) -> None:
        """Advance the world, and record its events."""
        since = world.now
        events = world.advance(until)
        self.past.record_events(world, events, since)
        # A link is no job of the trace, so no later day of the trace brings another one.
        self.history.record_events(events, self._jobs.get)
        world.forget_ended(until)

    def follow_until_started(self, world: Simulator, job_id: int, until: int) -> int | None:
        """Follow the world until the job starts, at most to `until`; return its start."""
        start = world.fork().run_until_started(job_id, until)
        self.follow_world(world, until if start is None else start)
        return start


@dataclass(slots=True, kw_only=True)
class ViewCompleter:
    """Completes the views of one hand-over with observations and the twin's forecasts."""

    memory: WorldMemory
    link: HandoverInput
    needs: Needs
    max_views: int
    """The most views of the hand-over. The twin's questions are spread over them."""
    twin: Twin = field(default_factory=Twin)
    _observations: list[Observation] = field(default_factory=list)
    _twin_s: NDArray[np.int32] | None = None
    _view_count: int = 0

    def complete_view(self, view: PolicyView, sim: Simulator) -> PolicyView:
        """Add what the policy needs. The twin's last answer holds between two questions."""
        if self.needs.observation or self.needs.window:
            memory = self.memory.past.memory
            self._observations.append(feature_vector.observe_simulator(sim, self.link, memory))
            view = replace(
                view, observation=self._observations[-1], window=np.array(self._observations)
            )
        if self.needs.twin:
            if self._view_count % compute_question_step(self.max_views) == 0:
                forecast = self.twin.forecast_from_simulator(
                    sim, self.link, self.memory.history, seed=sim.now
                )
                self._twin_s = forecast.compute_quantiles()
            view = replace(view, twin_s=self._twin_s)
        self._view_count += 1
        return view
