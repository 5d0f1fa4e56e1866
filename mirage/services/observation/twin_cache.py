"""The twin in the service: what it foretells of each hand-over, asked now and then.

An answer takes some 30 ms on a cluster of a hundred nodes, and seconds on one of thousands of jobs.
It changes slowly, so a hand-over is asked for at most 48 times in its predecessor's run, and each
tick brings a little time to ask in, which is saved up for an answer that takes longer. Who has
waited longest for an answer, a new one or its first, is next. A service that starts anew asks anew.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirage.episodes.table.twin_forecasts import ASKED

if TYPE_CHECKING:
    # With them comes the compiler: half a second and 60 MiB, for nothing where nobody asks.
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
    """The answers of late, and how much time there is to ask."""

    budget_s: float = BUDGET_S
    clock: Callable[[], float] = time.perf_counter
    _answers: dict[Hashable, tuple[int, Quantiles]] = field(default_factory=dict)
    _turns: dict[Hashable, int] = field(default_factory=dict)
    """Who waits to be asked for, longest first; and when that was last wanted."""
    _tick: int = 0
    _saved_s: float = 0.0
    _cost_s: float = 0.0
    """Of the last ask: the next one is taken to cost as much."""

    def get_quantiles(self, link: "HandoverInput", now: int, ask: TwinQuery) -> Quantiles | None:
        """[19], at `twin_features.LEVELS`, seconds; None: there was no time yet to ask."""
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
        """A tick is an instant of the cluster. No more is saved than one answer costs."""
        if now == self._tick:
            return
        # Who was not heard of in the last tick has handed over.
        self._turns = {k: at for k, at in self._turns.items() if at >= self._tick}
        most_s = max(self.budget_s, self._cost_s)
        self._tick, self._saved_s = now, min(max(self._saved_s, 0.0) + self.budget_s, most_s)
        horizon_s = 7 * 86400
        self._answers = {k: v for k, v in self._answers.items() if now - v[0] < horizon_s}
