"""Keeps the twin's answers, one for each group of hand-overs that wait alike.

A future costs a tenth of a millisecond on a cluster of a hundred nodes, and seconds on one of
thousands of jobs. Answers change slowly, so the twin is asked anew after ten minutes at the latest.
Questions for which a tick has no time are worked on between the ticks; until then decisions take
the last answers. The answers are lost when the service stops.
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
from mirage.twin.table_forecasts import QUESTIONS_PER_RUN

if TYPE_CHECKING:
    # It imports numba: half a second and 60 MiB, wasted if nobody asks the twin.
    from mirage.twin.forecast import Probe

_log = structlog.get_logger(__name__)

REFRESH_AFTER_S = 600
"""Seconds after which the twin is asked about a group again, at the latest."""
VALID_PARTS = 4
"""An answer holds for so many of the `QUESTIONS_PER_RUN` parts of a predecessor's run."""
NEAR_PLACES = 3
"""Places, each of a tenth more jobs ahead, within which an answer may stand in for another one."""
BUDGET_S = 0.25
"""Seconds that a tick spends on the twin, and the worker at a time between two ticks: a tick with a
thousand hand-overs must end within a second."""
HISTORY_S = 21 * DAY_S
"""Seconds of submissions that the twin reads: days to come are cut out of the last seven days, run
times are learned from all."""

_END = object()

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
    """Hand-overs whose successors would wait alike, with the one question asked for all of them."""

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
        return max(60, self.run_s // QUESTIONS_PER_RUN)


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
            if next(self._pieces, _END) is _END:
                self._pieces = None


@dataclass(slots=True)
class TwinCache:
    """The recent answers, and the round of questions that is under way."""

    budget_s: float = BUDGET_S
    """Seconds of work on the twin in a tick."""
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
        places = range(-NEAR_PLACES, NEAR_PLACES + 1)
        keys = [(group.shape, group.place + k) for k in sorted(places, key=abs)]
        answers = filter(None, map(self._answers.get, keys))
        return next((a for a in answers if now - a.at < VALID_PARTS * group.part_s), None)

    def refresh_answers(self, groups: Sequence[TwinGroup], now: int, ask: TwinQuery) -> None:
        """Begin a round about the groups that are due, unless one is under way; and go on with the
        round for as long as a tick may. The group that has waited longest is asked about first."""
        began_at, self._now = self.clock(), now
        due_groups = [] if self.round.is_under_way else self._list_due(groups, now)
        if due_groups:
            self._forget_answers(now)
            self.round.begin(
                self._keep_answers(ask(due_groups), [group.key for group in due_groups], now)
            )
        self.round.go_on(self.budget_s - (self.clock() - began_at))

    def _keep_answers(
        self, pieces: Iterator[GroupAnswers | None], keys: Sequence[GroupKey], now: int
    ) -> Iterator[None]:
        """Do the pieces and keep their answers, until the queue that the round began from is old.
        If a piece fails, the groups without an answer have failed."""
        unanswered = dict.fromkeys(keys)
        try:
            for answers in pieces:
                for key, quantile_s in (answers or {}).items():
                    self._answers[key] = TwinAnswer(now, quantile_s)
                    unanswered.pop(key, None)
                if answers and self._now - now >= REFRESH_AFTER_S:
                    return
                yield
        except Exception:
            _log.exception("the twin failed")
            self._answers |= {key: TwinAnswer(now, None) for key in unanswered}

    def _list_due(self, groups: Sequence[TwinGroup], now: int) -> list[TwinGroup]:
        ages_s = {group.key: self._compute_age_s(group, now) for group in groups}
        due_groups = [
            group for group in groups if ages_s[group.key] >= min(REFRESH_AFTER_S, group.part_s)
        ]
        return sorted(due_groups, key=lambda group: -ages_s[group.key])

    def _compute_age_s(self, group: TwinGroup, now: int) -> float:
        answer = self._answers.get(group.key)
        return math.inf if answer is None else now - answer.at

    def _forget_answers(self, now: int) -> None:
        horizon_s = 7 * DAY_S
        self._answers = {k: v for k, v in self._answers.items() if now - v.at < horizon_s}
