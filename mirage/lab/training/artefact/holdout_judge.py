"""Judges a model on weeks that it had not seen, for its card, by the code of `mirage evaluate`.

Hand-overs are played as the product plays them: each ten-minute instant is decided, the default
max-overlap bounds how early a link starts, and an early link may give its nodes back. So the card's
figures are those of `mirage evaluate` on the same hand-overs. `policies.auto_policy` chooses by
`judged`, which `policies.results.card_results` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.ports import Policy
from mirage.domain.time_units import HOUR_S
from mirage.judging import walk_forward
from mirage.judging.evaluation import Figures
from mirage.judging.policy_runner import PlayedHandovers, Terms
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.evaluation.auto_choices import AutoChoiceCounter
from mirage.lab.evaluation.evaluation_document import compute_figures
from mirage.lab.evaluation.policy_evaluation import MOST_RETURNS, ORACLE, Evaluation, PolicyRunner
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.dataset import order_episodes
from mirage.lab.training.metrics import operating_points
from mirage.policies.registry import FORECASTS, POLICIES, RULES
from mirage.policies.results.card_results import MODEL, format_column
from mirage.policies.results.comparison import Results

PRICES = (0.15, OVERLAP_PRICE, 1.5)
"""The overlap prices at which the card has the outcome of each judged hand-over."""


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window of weeks, and the models that were trained on the weeks before it."""

    window: Flags
    """[E]: the hand-overs of the window, in the order of `Rows`."""
    models: Mapping[str, Policy]
    """By their names in the card's `policies`. The model that the card describes comes first, and
    each window has the same names."""


@dataclass(frozen=True, slots=True)
class _JudgedTable:
    """The judged hand-overs of one table."""

    together: EpisodeTable
    by_window: Sequence[EpisodeTable]


class HoldoutJudge:
    """Plays models over the windows that follow their training, and the rules over the same
    hand-overs. Each policy plays a table once at each overlap price."""

    def __init__(
        self,
        tables: Sequence[EpisodeTable],
        windows: Sequence[JudgedWindow],
        output: StudyOutput,
        prices: Sequence[float] = operating_points.PRICES,
    ) -> None:
        """`tables`: all that were learned from. `prices`: those among which an operating point is
        searched, ascending."""
        self._windows, self._prices, self._output = windows, prices, output
        self._models = tuple(windows[0].models) if windows else ()
        self._judged = [
            _select_judged(table, _list_window_rows(tables, place, windows))
            for place, table in enumerate(tables)
            if table.metadata.has_logged_load
        ]
        self._played: dict[tuple[str, float, int], PlayedHandovers] = {}

    def build_metrics(self) -> dict[str, Any]:
        """Compute the card's `metrics`: the figures of `mirage evaluate`, and its terms."""
        return {
            "overlap_price": OVERLAP_PRICE,
            "most_returns": MOST_RETURNS,
            "guarded": True,
            "policies": self._compute_figures(),
        }

    def list_results(self) -> list[dict[str, Any]]:
        """List a set for each table that has judged hand-overs, as `card_results` reads them."""
        return [self._build_result_set(place) for place in self._list_places()]

    def list_operating_points(self) -> list[dict[str, Any]]:
        """List `operating_points.find_operating_point` of the model for each table at the logged
        load and each limit of `OVERLAPS_H`."""
        return [
            _describe_chain(judged.together)
            | {"overlap_at_most_h": limit_h}
            | self._find_operating_point(place, limit_h)
            for place, judged in enumerate(self._judged)
            for limit_h in operating_points.OVERLAPS_H
        ]

    def _compute_figures(self) -> Figures:
        places = self._list_places()
        if not places:
            return {}
        tables = [self._judged[place].together for place in places]
        names = ("reactive", ORACLE, *self._models, *_list_rules(tables))
        played = {
            name: [self._play(name, OVERLAP_PRICE, place) for place in places] for name in names
        }
        evaluation = Evaluation(tables, 0.0, played, AutoChoiceCounter(), MOST_RETURNS)
        return compute_figures(evaluation, OVERLAP_PRICE)

    def _build_result_set(self, place: int) -> dict[str, Any]:
        table = self._judged[place].together
        by_price = {price: self._collect_results(place, price) for price in PRICES}
        first = by_price[PRICES[0]]
        known_at = np.max([results.known_at for results in by_price.values()], axis=0)
        return {
            **_describe_chain(table),
            "start_point": format_column(first.start_point),
            "known_at": format_column(known_at),
            "load_s": format_column(_to_seconds(first.load_h)),
            "x_s": {
                str(price): _format_columns(results, _to_seconds(results.x_h))
                for price, results in by_price.items()
            },
            "returns": {
                str(price): _format_columns(results, _to_counts(results))
                for price, results in by_price.items()
            },
        }

    def _collect_results(self, place: int, price: float) -> Results:
        table = self._judged[place].together
        played = {MODEL: self._play(self._models[0], price, place)}
        played |= {
            name: self._play(name, price, place) for name in ("reactive", *_list_rules([table]))
        }
        return walk_forward.collect_results(table, played)

    def _find_operating_point(self, place: int, limit_h: float) -> dict[str, Any]:
        table = self._judged[place].together

        def find_outcomes_h(price: float) -> Floats:
            played = self._play(self._models[0], price, place)
            return table.outcome_h[np.arange(len(table)), played.release_instants]

        return operating_points.find_operating_point(
            self._prices, find_outcomes_h, table.start_point, limit_h
        )

    def _list_places(self) -> list[int]:
        return [place for place, judged in enumerate(self._judged) if len(judged.together)]

    def _play(self, name: str, price: float, place: int) -> PlayedHandovers:
        key = (name, price, place)
        if key not in self._played:
            self._played[key] = self._play_anew(name, price, self._judged[place])
        return self._played[key]

    def _play_anew(self, name: str, price: float, judged: _JudgedTable) -> PlayedHandovers:
        terms = Terms(overlap_price=price, returns=MOST_RETURNS, guarded=True)
        # What cannot be asked at one price cannot be asked at the others: it is told once.
        quiet = replace(self._output, warn=lambda _: None)
        output = self._output if price == OVERLAP_PRICE else quiet
        if name not in self._models:
            (played,) = PolicyRunner([judged.together], terms, output).play_tables(
                name, POLICIES.get(name)
            )
            return played
        pairs = zip(judged.by_window, self._windows, strict=True)
        return _join_played(
            [
                PolicyRunner([table], terms, output).play_tables(name, window.models[name])[0]
                for table, window in pairs
            ]
        )


def _list_window_rows(
    tables: Sequence[EpisodeTable], place: int, windows: Sequence[JudgedWindow]
) -> list[Ints]:
    """List, for each window, the numbers of its episodes in the table at `place`."""
    order = order_episodes(tables)
    table_of = np.repeat(np.arange(len(tables)), [len(t) for t in tables])[order]
    row_of = np.concatenate([np.arange(len(t)) for t in tables])[order]
    return [row_of[window.window & (table_of == place)] for window in windows]


def _select_judged(table: EpisodeTable, by_window: Sequence[Ints]) -> _JudgedTable:
    together = np.concatenate([np.zeros(0, dtype=np.int64), *by_window])
    return _JudgedTable(
        table.select_episodes(together), [table.select_episodes(part) for part in by_window]
    )


def _list_rules(tables: Sequence[EpisodeTable]) -> tuple[str, ...]:
    """List the rules to compare a model with, apart from plain Slurm. Where the twin was not asked,
    it would be judged by its fall-back."""
    forecasts = FORECASTS if all(table.twins is not None for table in tables) else ()
    return (*forecasts, *(name for name in RULES if name != "reactive"))


def _join_played(parts: Sequence[PlayedHandovers]) -> PlayedHandovers:
    return PlayedHandovers(
        release_instants=np.concatenate([part.release_instants for part in parts]),
        returns=np.concatenate([part.returns for part in parts]),
        releases=list(chain.from_iterable(part.releases for part in parts)),
    )


def _describe_chain(table: EpisodeTable) -> dict[str, Any]:
    """Return the fields that name the kind of chain that a table is of."""
    metadata = table.metadata
    return {
        "cluster": str(metadata.cluster.get("name", "")),
        "partition": metadata.partition,
        "nodes": metadata.nodes,
        "time_limit_s": metadata.time_limit_s,
    }


def _format_columns(results: Results, values: Ints) -> dict[str, str]:
    return {name: format_column(values[:, p]) for p, name in enumerate(results.names)}


def _to_seconds(hours: Floats) -> Ints:
    return np.round(hours * HOUR_S).astype(np.int64)


def _to_counts(results: Results) -> Ints:
    assert results.returns is not None  # noqa: S101 - returns were played
    return results.returns.astype(np.int64)
