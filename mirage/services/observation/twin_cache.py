"""Keeps the twin's forecast of each hand-over, and asks the twin again now and then.

A forecast takes some 30 ms on a cluster of a hundred nodes, and seconds on one of thousands of
jobs. It changes slowly, so the twin is asked at most 48 times in a predecessor's run. Each tick
brings a little time to ask, which is saved up for forecasts that take longer. The hand-over that
has waited longest for a forecast is next. The forecasts are lost when the service stops.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirage.episodes.table.twin_forecasts import ASKED

if TYPE_CHECKING:
    # It imports numba: half a second and 60 MiB, wasted if nobody asks the twin.
    from mirage.features.handover_input import HandoverInput

GOOD_FOR = 4
"""Intervals for which an answer may stand in for the next one."""
BUDGET_S = 0.25
"""That a tick brings: a thousand hand-overs are to be decided in a second."""
LONGEST_SAVING = 12
"""Ticks that are saved up for at most: the first ask after an installation compiles."""
HISTORY_S = 21 * 86400
"""Of submissions: days to come are cut out of the last seven, run times are learned from all."""

Quantiles = NDArray[np.int32]
TwinQuery = Callable[["HandoverInput"], Quantiles]


@dataclass(slots=True)
class TwinCache:
    """The recent forecasts, and the time that is left to ask for more."""

    budget_s: float = BUDGET_S
    clock: Callable[[], float] = time.perf_counter
    _answers: dict[Hashable, tuple[int, Quantiles]] = field(default_factory=dict)
    _turns: dict[Hashable, int] = field(default_factory=dict)
    """The hand-overs that wait for a forecast, longest first, with when each was last wanted."""
    _tick: int = 0
    _saved_s: float = 0.0
    _cost_s: float = 0.0
    """The seconds of the last forecast; the next one is expected to take as long."""

    def get_quantiles(self, link: "HandoverInput", now: int, ask: TwinQuery) -> Quantiles | None:
        """Return int32[19], seconds at `twin_features.LEVELS`; None if the twin was not asked."""
        key = (link.job_id, link.predecessor_start)
        every_s = max(60, (link.predecessor_end - link.predecessor_start) // ASKED)
        at, answer = self._answers.get(key, (None, None))
        if at is not None and now - at < every_s:
            return answer
        self._begin_tick(now)
        self._turns[key] = now
        if key == next(iter(self._turns)) and 0.0 < self._saved_s >= self._cost_s:
            answer = self._run_twin(link, ask)
            self._answers[key] = (now, answer)
            del self._turns[key]
            return answer
        return answer if at is not None and now - at < GOOD_FOR * every_s else None

    def _run_twin(self, link: "HandoverInput", ask: TwinQuery) -> Quantiles:
        begun = self.clock()
        try:
            return ask(link)
        finally:
            took_s = self.clock() - begun
            self._saved_s -= took_s
            self._cost_s = min(took_s, LONGEST_SAVING * self.budget_s)

    def _begin_tick(self, now: int) -> None:
        """Add a tick's time once for each instant; at most one forecast's time is saved up."""
        if now == self._tick:
            return
        # A hand-over that was not wanted in the last tick is over.
        self._turns = {k: at for k, at in self._turns.items() if at >= self._tick}
        most_s = max(self.budget_s, self._cost_s)
        self._tick, self._saved_s = now, min(max(self._saved_s, 0.0) + self.budget_s, most_s)
        horizon_s = 7 * 86400
        self._answers = {k: v for k, v in self._answers.items() if now - v[0] < horizon_s}
