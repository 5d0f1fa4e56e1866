"""The twin in the service: what it foretells of each hand-over, asked now and then.

An answer takes some 30 ms and changes slowly, so a hand-over is asked for at most 48 times in its
predecessor's run, and a tick asks no longer than its budget: those that were answered do not ask
again, so the others come to their turn in later ticks. A service that starts anew asks anew.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirage.episodes.twins import ASKED

if TYPE_CHECKING:
    # With them comes the compiler: half a second and 60 MiB, for nothing where nobody asks.
    from mirage.features.link import Link

GOOD_FOR = 2
"""Intervals for which an answer may stand in for the next one."""
BUDGET_S = 0.25
"""Of a tick: a thousand hand-overs are to be decided in a second (docs/serving-models.md)."""
HISTORY_S = 21 * 86400
"""Of submissions: days to come are cut out of the last seven, run times are learned from all."""

Quantiles = NDArray[np.int32]
Ask = Callable[["Link"], Quantiles]


@dataclass(slots=True)
class Foresight:
    """The answers of late, and how long this tick has asked."""

    budget_s: float = BUDGET_S
    clock: Callable[[], float] = time.perf_counter
    _answers: dict[Hashable, tuple[int, Quantiles]] = field(default_factory=dict)
    _tick: int = 0
    _spent_s: float = 0.0

    def of(self, link: "Link", now: int, ask: Ask) -> Quantiles | None:
        """[19], at `features.foretold.LEVELS`, seconds; None: there was no time yet to ask."""
        key = (link.job_id, link.predecessor_start)
        every_s = max(60, (link.predecessor_end - link.predecessor_start) // ASKED)
        at, answer = self._answers.get(key, (None, None))
        if at is not None and now - at < every_s:
            return answer
        self._begin(now)
        if self._spent_s < self.budget_s:
            begun = self.clock()
            try:
                answer = ask(link)
            finally:
                self._spent_s += self.clock() - begun
            self._answers[key] = (now, answer)
            return answer
        return answer if at is not None and now - at < GOOD_FOR * every_s else None

    def _begin(self, now: int) -> None:
        """A tick is an instant of the cluster."""
        if now == self._tick:
            return
        self._tick, self._spent_s = now, 0.0
        horizon_s = 7 * 86400
        self._answers = {k: v for k, v in self._answers.items() if now - v[0] < horizon_s}
