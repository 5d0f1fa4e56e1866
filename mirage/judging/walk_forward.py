"""Plays `auto` over an episode table: each choice uses earlier results of its candidates there."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.decision import PolicyView
from mirage.domain.ports import Policy
from mirage.domain.time_units import HOUR_S
from mirage.judging.policy_runner import PlayedHandovers, select_known_waits
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.auto_policy import AutoPolicy, Candidate, Choice
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.results.comparison import Results, compute_load_h, merge_results


def play_auto(
    auto: AutoPolicy,
    table: EpisodeTable,
    play: Callable[[Policy], PlayedHandovers],
    on_choice: Callable[[Choice], None] = lambda _: None,
) -> PlayedHandovers:
    """Play the hand-overs as `auto` does. `play` plays a policy over the table.

    Every candidate runs by itself first. The results of a hand-over are known to `auto` once the
    last of the candidates' successors has started. `on_choice` is called with each choice.
    """
    candidates = _list_fit_candidates(auto, table)
    table_results = collect_results(table, {c.name: play(c.policy) for c in candidates})
    results = _CombinedResults(auto.results, table_results)
    return play(replace(auto, results=results, on_choice=on_choice))


def _list_fit_candidates(auto: AutoPolicy, table: EpisodeTable) -> list[Candidate]:
    """List the candidates that can be asked about such chains at all."""
    metadata = table.metadata
    return [
        c
        for c in auto.candidates
        if not isinstance(c.policy, UnavailableModel)
        and not (c.policy.needs.twin and table.twins is None)
        and (
            c.scope is None
            or c.scope.explain_outside(metadata.nodes, metadata.time_limit_s) is None
        )
    ]


def collect_results(
    table: EpisodeTable, played_handovers: Mapping[str, PlayedHandovers]
) -> Results:
    """Collect the results of policies in a table.

    A result is known once the last of the policies' successors has started and the predecessor has
    ended.
    """
    rows = np.arange(len(table))
    x_s = np.column_stack(
        [
            table.outcome_s[rows, played.release_instants].astype(np.int64)
            for played in played_handovers.values()
        ]
    )
    known_at = table.predecessor_end + np.maximum(x_s.max(axis=1), 0)
    loads_h = compute_loads_h(table)
    returns = np.column_stack([p.returns.astype(np.float64) for p in played_handovers.values()])
    return Results(
        tuple(played_handovers), table.start_point, known_at, loads_h, x_s / HOUR_S, returns
    )


def compute_loads_h(table: EpisodeTable) -> Floats:
    """Return the load [E] in hours at each predecessor's start (`comparison.compute_load_h`)."""
    metadata, starts = table.metadata, table.predecessor_start.tolist()
    waits = (select_known_waits(table.get_started_jobs(i), start) for i, start in enumerate(starts))
    return np.array([compute_load_h(w, metadata.nodes, metadata.time_limit_s) for w in waits])


class _CombinedResults:
    """Adds a table's results to those of the models' cards."""

    def __init__(
        self, get_card_results: Callable[[PolicyView], Results], table_results: Results
    ) -> None:
        self._get_card_results = get_card_results
        self._table_results = table_results
        self._card_results = Results.create_empty()
        self._merged_results = table_results

    def __call__(self, view: PolicyView) -> Results:
        card_results = self._get_card_results(view)
        if card_results is not self._card_results:
            self._card_results = card_results
            self._merged_results = merge_results([card_results, self._table_results])
        return self._merged_results
