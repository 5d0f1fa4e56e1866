"""`auto` over an episode table: walk-forward, by the results of its candidates in that table."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.decision import PolicyView
from mirage.domain.ports import Policy
from mirage.domain.time_units import HOUR_S
from mirage.judging.policy_runner import Chosen, Played, select_known_waits
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.auto_policy import AutoPolicy, Candidate, Choice
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.results.comparison import Results, compute_load_h, merge_results


def play_auto(
    auto: AutoPolicy,
    table: EpisodeTable,
    play: Callable[[Policy], Played],
    told: Callable[[Choice], None] = lambda _: None,
) -> Played:
    """Play the hand-overs as `auto` does. `play` plays a policy over the table.

    Every candidate runs by itself first. The results of a hand-over are known to `auto` once its
    last successor had started. `told` is called with each choice.
    """
    askable = _list_askable(auto, table)
    own = collect_results(table, {c.name: play(c.policy).chosen for c in askable})
    return play(replace(auto, results=_CombinedResults(auto.results, own), told=told))


def _list_askable(auto: AutoPolicy, table: EpisodeTable) -> list[Candidate]:
    """List the candidates that can be asked about such chains at all."""
    about = table.about
    return [
        c
        for c in auto.candidates
        if not isinstance(c.policy, UnavailableModel)
        and not (c.policy.needs.twin and table.twins is None)
        and (c.scope is None or c.scope.explain_outside(about.nodes, about.time_limit_s) is None)
    ]


def collect_results(table: EpisodeTable, chosen: Mapping[str, Chosen]) -> Results:
    """Collect the results of policies in a table.

    A result is known once the last of the policies' successors has started and the predecessor has
    ended.
    """
    rows = np.arange(len(table))
    x_s = np.column_stack([table.outcome_s[rows, k].astype(np.int64) for k in chosen.values()])
    ended = table.predecessor_end + np.maximum(x_s.max(axis=1), 0)
    return Results(tuple(chosen), table.start_point, ended, compute_loads_h(table), x_s / HOUR_S)


def compute_loads_h(table: EpisodeTable) -> Floats:
    """[E]: `comparison.compute_load_h` at each predecessor's start."""
    about, starts = table.about, table.predecessor_start.tolist()
    waits = (select_known_waits(table.get_started_jobs(i), start) for i, start in enumerate(starts))
    return np.array([compute_load_h(w, about.nodes, about.time_limit_s) for w in waits])


class _CombinedResults:
    """A table's results beside the cards'."""

    def __init__(self, cards: Callable[[PolicyView], Results], own: Results) -> None:
        self._cards = cards
        self._own = own
        self._seen = Results.create_empty()
        self._both = own

    def __call__(self, view: PolicyView) -> Results:
        before = self._cards(view)
        if before is not self._seen:
            self._seen, self._both = before, merge_results([before, self._own])
        return self._both
