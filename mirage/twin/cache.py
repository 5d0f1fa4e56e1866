"""Keeps the twin's answers, one for each group of hand-overs that wait alike.

A future costs a tenth of a millisecond on a cluster of a hundred nodes, and seconds on one of
thousands of jobs. Answers change slowly, so the twin is asked anew after ten minutes at the latest.
What a tick has no time for goes on between the ticks, and decisions take the last answers until
then. The answers are lost when the service stops.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import structlog
from numpy.typing import NDArray

from mirage.domain.time_units import DAY_S
from mirage.twin.table_forecasts import ASKED

if TYPE_CHECKING:
    # It imports numba: half a second and 60 MiB, wasted if nobody asks the twin.
    from mirage.twin.forecast import Probe

_log = structlog.get_logger(__name__)

ANEW_S = 600
"""Seconds after which the twin is asked about a group again, at the latest."""
GOOD_FOR = 4
"""Of the `ASKED` parts of a predecessor's run: an answer may be so old."""
NEAR = 3
"""Places, each of a tenth more jobs ahead, within which an answer may stand in for another one."""
BUDGET_S = 0.25
"""That a tick spends on the twin, and the worker at a time between two ticks: a thousand hand-overs
are to be decided in a second."""
HISTORY_S = 21 * DAY_S
"""Of submissions: days to come are cut out of the last seven, run times are learned from all."""

_OVER = object()

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
GroupAnswers = Mapping[GroupKey, Quantiles | None]
TwinQuery = Callable[[Sequence[TwinGroup]], Iterator[GroupAnswers | None]]
"""Yields after each piece of the work; None: the piece has answered nothing."""


@dataclass(slots=True)
class PacedRound:
    """A round of questions to the twin, worked off in pieces whenever there is time."""

    clock: Callable[[], float] = time.perf_counter
    _pieces: Iterator[object] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._pieces is not None

    def begin(self, pieces: Iterator[object]) -> None:
        """Take a round in place of one that is under way."""
        self._pieces = pieces

    def go_on(self, seconds: float) -> None:
        """Do pieces for so many seconds, or until the round is over. A piece is done to its end."""
        until = self.clock() + seconds
        while self._pieces is not None and self.clock() < until:
            if next(self._pieces, _OVER) is _OVER:
                self._pieces = None


@dataclass(slots=True)
class TwinCache:
    """The recent answers, and the round of questions that is under way."""

    budget_s: float = BUDGET_S
    """Of a tick, seconds."""
    clock: Callable[[], float] = time.perf_counter
    round: PacedRound = field(init=False)
    _now: int = 0
    """The instant of the last tick."""
    _answers: dict[GroupKey, TwinAnswer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.round = PacedRound(self.clock)

    def get_answer(self, group: TwinGroup, now: int) -> TwinAnswer | None:
        """Return the last answer for the group, or for the nearest place in the queue; None if
        there is none, or if it is too old."""
        places = range(-NEAR, NEAR + 1)
        keys = [(group.shape, group.place + k) for k in sorted(places, key=abs)]
        answers = filter(None, map(self._answers.get, keys))
        return next((a for a in answers if now - a.at < GOOD_FOR * group.part_s), None)

    def refresh_answers(self, groups: Sequence[TwinGroup], now: int, ask: TwinQuery) -> None:
        """Begin a round about the groups that are due, unless one is under way; and go on with the
        round for as long as a tick may. The group that has waited longest is asked about first."""
        begun, self._now = self.clock(), now
        due = [] if self.round.is_under_way else self._list_due(groups, now)
        if due:
            self._forget_answers(now)
            self.round.begin(self._keep_answers(ask(due), [group.key for group in due], now))
        self.round.go_on(self.budget_s - (self.clock() - begun))

    def _keep_answers(
        self, work: Iterator[GroupAnswers | None], keys: Sequence[GroupKey], now: int
    ) -> Iterator[None]:
        """Do the work, and keep what it answers, until the queue that it began from is old. If the
        work fails, the groups that have no answer yet have failed."""
        left = dict.fromkeys(keys)
        try:
            for answers in work:
                for key, quantile_s in (answers or {}).items():
                    self._answers[key] = TwinAnswer(now, quantile_s)
                    left.pop(key, None)
                if answers and self._now - now >= ANEW_S:
                    return
                yield
        except Exception:
            _log.exception("the twin failed")
            self._answers |= {key: TwinAnswer(now, None) for key in left}

    def _list_due(self, groups: Sequence[TwinGroup], now: int) -> list[TwinGroup]:
        ages_s = {group.key: self._compute_age_s(group, now) for group in groups}
        due = [group for group in groups if ages_s[group.key] >= min(ANEW_S, group.part_s)]
        return sorted(due, key=lambda group: -ages_s[group.key])

    def _compute_age_s(self, group: TwinGroup, now: int) -> float:
        answer = self._answers.get(group.key)
        return math.inf if answer is None else now - answer.at

    def _forget_answers(self, now: int) -> None:
        horizon_s = 7 * DAY_S
        self._answers = {k: v for k, v in self._answers.items() if now - v.at < horizon_s}
