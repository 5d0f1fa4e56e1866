"""Results out of models' cards: what each model and the rules came to on weeks it had not seen.

`judged` in a card is a list of sets, one for each kind of chain that it was judged on: `cluster`,
`partition` (empty, or not there: of all that have none), `nodes`, `time_limit_s`, and columns as
text, numbers with a space between: `start_point`, `known_at`, `load_s`, and `x_s`,
{price: {policy: column}}, the model itself by the name `MODEL`.
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
"""Results of one chain size are used for another size within this factor, if there are none of a
nearer size."""

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
    def from_card(cls, told: Mapping[str, Any]) -> Self:
        """Read the results of a card. Raises KeyError and ValueError if there are none."""
        start_point, known_at, load_s = (_parse_column(told[name]) for name in _COLUMNS)
        by_price = {}
        for price, columns in told["x_s"].items():
            x_h = np.column_stack([_parse_column(text) / HOUR_S for text in columns.values()])
            by_price[float(price)] = Results(
                tuple(columns), start_point, known_at, load_s / HOUR_S, x_h
            )
        partition = told.get("partition", "")
        return cls(told["cluster"], partition, told["nodes"], told["time_limit_s"], by_price)

    def get_results_at(self, price: float, model: str) -> Results:
        """Return the results at the nearest overlap price. The model is under its own name."""
        found = self.by_price[min(self.by_price, key=lambda p: _measure_distance(p, price))]
        return replace(found, names=tuple(model if n == MODEL else n for n in found.names))


_COLUMNS = ("start_point", "known_at", "load_s")


def parse_card(card: Mapping[str, Any]) -> tuple[CardResults, ...]:
    return tuple(CardResults.from_card(told) for told in card.get("judged", ()))


class CardResultsLookup:
    """Finds the results in the cards of models, for `auto`."""

    def __init__(self, models: Mapping[str, Sequence[CardResults]]) -> None:
        """Keep the results of cards by the models' names."""
        self._sets = [(name, one) for name, found in models.items() for one in found]
        self._of = lru_cache(maxsize=256)(self._find_results)

    def __call__(self, view: PolicyView) -> Results:
        kind = (view.cluster, view.partition, view.time_limit_s)
        return self._of(kind, view.nodes, view.overlap_price)

    def _list_like(self, kind: tuple[str, str, int]) -> list[tuple[str, CardResults]]:
        """List the results of that partition, else those of tables that name no partition."""
        cluster, named, time_limit_s = kind
        for partition in (named, ""):
            chain = (cluster, partition, time_limit_s)
            like = [
                (n, s) for n, s in self._sets if (s.cluster, s.partition, s.time_limit_s) == chain
            ]
            if like:
                return like
        return []

    def _find_results(self, kind: tuple[str, str, int], nodes: int, price: float) -> Results:
        like = self._list_like(kind)
        if not kind[0] or not like:
            return Results.create_empty()
        nearest = min((s.nodes for _, s in like), key=lambda n: _measure_distance(n, nodes))
        if _measure_distance(nearest, nodes) > log(SIZE_WITHIN):
            return Results.create_empty()
        return merge_results(
            [s.get_results_at(price, name) for name, s in like if s.nodes == nearest]
        )


def format_column(column: Ints) -> str:
    """Format a column as cards have it."""
    return " ".join(map(str, column.tolist()))


def _parse_column(text: str) -> Ints:
    return np.array(text.split(), dtype=np.int64)


def _measure_distance(one: float, other: float) -> float:
    return abs(log(max(one, _LEAST_PRICE)) - log(max(other, _LEAST_PRICE)))
