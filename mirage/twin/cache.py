"""Keeps the twin's answers, one for each group of hand-overs that wait alike.

A future costs a tenth of a millisecond on a cluster of a hundred nodes, and seconds on one of
thousands of jobs. Answers change slowly, so the twin is asked anew after ten minutes at the latest.
Each tick brings a little time to ask, which is saved up for answers that take longer. The group
that has waited longest for an answer is next. The answers are lost when the service stops.
"""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirage.twin.table_forecasts import ASKED

if TYPE_CHECKING:
    # It imports numba: half a second and 60 MiB, wasted if nobody asks the twin.
    from mirage.twin.forecast import Probe

ANEW_S = 600
"""Seconds after which the twin is asked about a group again, at the latest."""
GOOD_FOR = 4
"""Of the `ASKED` parts of a predecessor's run: an answer may be so old."""
NEAR = 3
"""Places, each of a tenth more jobs ahead, within which an answer may stand in for another one."""
BUDGET_S = 0.25
"""That a tick brings: a thousand hand-overs are to be decided in a second."""
LONGEST_SAVING = 12
"""Ticks that are saved up for at most: the first ask after an installation compiles."""
HISTORY_S = 21 * 86400
"""Of submissions: days to come are cut out of the last seven, run times are learned from all."""

Quantiles = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TwinAnswer:
    """The answer for a group of hand-overs."""

    at: int
    """The instant of the queue that was simulated, epoch seconds."""
    quantile_s: Quantiles | None
    """int32[19], seconds at `twin_features.LEVELS`; None: the twin failed."""


@dataclass(frozen=True, slots=True)
class TwinGroup:
    """Hand-overs whose successors would wait alike, with the question that stands for all."""

    shape: Hashable
    """The successor's request."""
    place: int
    """The class of its place in the queue (`SnapshotObserver.classify_wait`)."""
    run_s: int
    """The shortest run among their predecessors, by its limit, seconds."""
    probe: "Probe"

    @property
    def key(self) -> "GroupKey":
        """Return what decides the wait."""
        return self.shape, self.place

    @property
    def part_s(self) -> int:
        """Return the time between two instants at which tables are asked, in seconds."""
        return max(60, self.run_s // ASKED)


GroupKey = tuple[Hashable, int]
TwinQuery = Callable[[Sequence[TwinGroup]], Iterator[Mapping[GroupKey, Quantiles | None]]]
"""Yields the answers of some groups at a time, in about the order of the groups."""


@dataclass(slots=True)
class TwinCache:
    """The recent answers, and the time that is left to ask for more."""

    budget_s: float = BUDGET_S
    clock: Callable[[], float] = time.perf_counter
    _answers: dict[GroupKey, TwinAnswer] = field(default_factory=dict)
    _turns: dict[GroupKey, None] = field(default_factory=dict)
    """The groups that wait for an answer, longest first."""
    _tick: int = 0
    _saved_s: float = 0.0
    _cost_s: float = 0.0
    """The most seconds between two answers of the last asking; the next are expected to take as
    long."""

    def get_answer(self, group: TwinGroup, now: int) -> TwinAnswer | None:
        """Return the last answer for the group, or for the nearest place in the queue; None if
        there is none, or if it is too old."""
        places = range(-NEAR, NEAR + 1)
        keys = [(group.shape, group.place + k) for k in sorted(places, key=abs)]
        answers = filter(None, map(self._answers.get, keys))
        return next((a for a in answers if now - a.at < GOOD_FOR * group.part_s), None)

    def refresh_answers(self, groups: Sequence[TwinGroup], now: int, ask: TwinQuery) -> None:
        """Ask for the groups of a tick that are due, as far as the saved time goes."""
        self._begin_tick(now)
        due = {group.key: group for group in groups if self._is_due(group, now)}
        # A group that is not wanted any more gives up its turn.
        self._turns = {key: None for key in (*self._turns, *due) if key in due}
        answers, cost_s = ask([due[key] for key in self._turns]), 0.0
        while self._turns and 0.0 < self._saved_s >= self._cost_s:
            begun = self.clock()
            try:
                made = next(answers, {})
            finally:
                took_s = self.clock() - begun
                self._saved_s -= took_s
                cost_s = max(cost_s, min(took_s, LONGEST_SAVING * self.budget_s))
                self._cost_s = cost_s
            for key, quantile_s in made.items():
                self._answers[key] = TwinAnswer(now, quantile_s)
                self._turns.pop(key, None)
            if not made:
                break

    def _is_due(self, group: TwinGroup, now: int) -> bool:
        answer = self._answers.get(group.key)
        return answer is None or now - answer.at >= min(ANEW_S, group.part_s)

    def _begin_tick(self, now: int) -> None:
        """Add a tick's time once for each instant; at most one answer's time is saved up."""
        if now == self._tick:
            return
        most_s = max(self.budget_s, self._cost_s)
        self._tick, self._saved_s = now, min(max(self._saved_s, 0.0) + self.budget_s, most_s)
        horizon_s = 7 * 86400
        self._answers = {k: v for k, v in self._answers.items() if now - v.at < horizon_s}
