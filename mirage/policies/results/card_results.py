"""Reads results from models' cards: the outcomes of each model and of the rules on unseen weeks.

`judged` in a card is a list of sets, one for each kind of chain that the model was judged on. A set
has `cluster`, `partition` (empty or missing: the tables name no partition), `nodes`,
`time_limit_s`, and columns. A column is a text of numbers with spaces between them: `start_point`,
`known_at`, `load_s`, and those in `x_s`, which is {price: {policy: column}}. The model itself has
the name `MODEL`. `returns` has columns like those of `x_s`: how often each link gave its nodes
back. Cards of older models lack it, since their hand-overs were played without returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import Any, Self

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.decision import PolicyView
from mirage.domain.time_units import HOUR_S
from mirage.policies.results.comparison import Results, merge_results

MODEL = "model"
SIZE_WITHIN = 2.0
"""Results of the nearest chain size are used for another size within this factor."""

_LEAST_PRICE = 1e-3


@dataclass(frozen=True, slots=True)
class CardResults:
    """The results of one kind of chain, by the overlap price at which it was decided."""

    cluster: str
    partition: str
    nodes: int
    time_limit_s: int
    by_price: Mapping[float, Results]

    @classmethod
    def from_card(cls, judged: Mapping[str, Any]) -> Self:
        """Read one set of `judged`. Raises KeyError and ValueError for an incomplete one."""
        start_point, known_at, load_s = (_parse_column(judged[name]) for name in _COLUMNS)
        by_price = {}
        for price, columns in judged["x_s"].items():
            x_h = np.column_stack([_parse_column(text) / HOUR_S for text in columns.values()])
            returns = None
            if "returns" in judged:
                counts = (_parse_column(judged["returns"][price][name]) for name in columns)
                returns = np.column_stack([count.astype(np.float64) for count in counts])
            by_price[float(price)] = Results(
                tuple(columns), start_point, known_at, load_s / HOUR_S, x_h, returns
            )
        partition = judged.get("partition", "")
        return cls(judged["cluster"], partition, judged["nodes"], judged["time_limit_s"], by_price)

    def get_results_at(self, price: float, model: str) -> Results:
        """Return the results at the nearest overlap price. The model is under its own name."""
        nearest = min(self.by_price, key=lambda p: _measure_distance(p, price))
        results = self.by_price[nearest]
        return replace(results, names=tuple(model if n == MODEL else n for n in results.names))


_COLUMNS = ("start_point", "known_at", "load_s")


def parse_card(card: Mapping[str, Any]) -> tuple[CardResults, ...]:
    return tuple(CardResults.from_card(judged) for judged in card.get("judged", ()))


class CardResultsLookup:
    """Finds the results in the cards of models, for `auto`."""

    def __init__(self, models: Mapping[str, Sequence[CardResults]]) -> None:
        """`models`: the results of each model's card, by the model's name."""
        self._sets = [(name, results) for name, sets in models.items() for results in sets]
        self._find_cached = lru_cache(maxsize=256)(self._find_results)

    def __call__(self, view: PolicyView) -> Results:
        kind = (view.cluster, view.partition, view.time_limit_s)
        return self._find_cached(kind, view.nodes, view.overlap_price)

    def _list_sets(self, kind: tuple[str, str, int]) -> list[tuple[str, CardResults]]:
        """List the results for a cluster, partition and time limit, each with its model's name.

        If there are none of that partition, those of tables that name no partition are listed.
        """
        cluster, view_partition, time_limit_s = kind
        for partition in (view_partition, ""):
            kind_of_set = (cluster, partition, time_limit_s)
            sets = [
                (n, s)
                for n, s in self._sets
                if (s.cluster, s.partition, s.time_limit_s) == kind_of_set
            ]
            if sets:
                return sets
        return []

    def _find_results(self, kind: tuple[str, str, int], nodes: int, price: float) -> Results:
        sets = self._list_sets(kind)
        if not kind[0] or not sets:
            return Results.create_empty()
        nearest = min((s.nodes for _, s in sets), key=lambda n: _measure_distance(n, nodes))
        if _measure_distance(nearest, nodes) > log(SIZE_WITHIN):
            return Results.create_empty()
        return merge_results(
            [s.get_results_at(price, name) for name, s in sets if s.nodes == nearest]
        )


def format_column(column: Ints) -> str:
    """Format a column as cards have it."""
    return " ".join(map(str, column.tolist()))


def _parse_column(text: str) -> Ints:
    return np.array(text.split(), dtype=np.int64)


def _measure_distance(one: float, other: float) -> float:
    return abs(log(max(one, _LEAST_PRICE)) - log(max(other, _LEAST_PRICE)))
