"""`auto` over an episode table: walk-forward, by the results of its candidates in that table."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mirage.domain.decision import HandoverView
from mirage.episodes.judge.policy_runner import Chosen, select_known_waits
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.policy.auto.auto_policy import Auto, Candidate, Choice
from mirage.policy.models.unavailable_model import Unserved
from mirage.policy.results.comparison import Floats, Results, load_h, together
from mirage.policy.twin.twin_policy import wants_twin
from mirage.ports import Policy

_HOUR_S = 3600.0


def chosen(
    auto: Auto,
    table: EpisodeTable,
    decided: Callable[[Policy], Chosen],
    told: Callable[[Choice], None] = lambda _: None,
) -> Chosen:
    """The instants that `auto` chooses; `decided` asks a policy over the table.

    Every candidate goes first, by itself. What came of a hand-over under all of them is known to
    `auto` once the last of them had ended; `told` hears of its choices.
    """
    own = results(table, {c.name: decided(c.policy) for c in _askable(auto, table)})
    return decided(replace(auto, results=_Beside(auto.results, own), told=told))


def _askable(auto: Auto, table: EpisodeTable) -> list[Candidate]:
    """Those that can be asked about such chains at all."""
    about = table.about
    return [
        c
        for c in auto.candidates
        if not isinstance(c.policy, Unserved)
        and not (wants_twin(c.policy) and table.twins is None)
        and (c.scope is None or c.scope.outside(about.nodes, about.time_limit_s) is None)
    ]


def results(table: EpisodeTable, chosen: Mapping[str, Chosen]) -> Results:
    """What policies came to in a table; known when the last of them and the predecessor were."""
    rows = np.arange(len(table))
    x_s = np.column_stack([table.outcome_s[rows, k].astype(np.int64) for k in chosen.values()])
    ended = table.predecessor_end + np.maximum(x_s.max(axis=1), 0)
    return Results(tuple(chosen), table.start_point, ended, loads_h(table), x_s / _HOUR_S)


def loads_h(table: EpisodeTable) -> Floats:
    """[E]: `results.load_h` at each predecessor's start."""
    about, starts = table.about, table.predecessor_start.tolist()
    waits = (select_known_waits(table.get_started_jobs(i), start) for i, start in enumerate(starts))
    return np.array([load_h(w, about.nodes, about.time_limit_s) for w in waits])


class _Beside:
    """A table's results beside the cards'."""

    def __init__(self, cards: Callable[[HandoverView], Results], own: Results) -> None:
        self._cards = cards
        self._own = own
        self._seen = Results.none()
        self._both = own

    def __call__(self, view: HandoverView) -> Results:
        before = self._cards(view)
        if before is not self._seen:
            self._seen, self._both = before, together([before, self._own])
        return self._both
