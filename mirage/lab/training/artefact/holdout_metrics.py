"""Measures a model and the rules on weeks that the model was not trained on, for its card.

`policies.auto_policy` chooses by these figures before a site has results of its own;
`policies.results.card_results` reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.domain.arrays import Flags, Ints
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import Policy, SimplePolicy
from mirage.domain.time_units import HOUR_S
from mirage.judging import policy_runner, walk_forward
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.dataset import Rows, list_decision_instants
from mirage.lab.training.metrics import operating_points
from mirage.lab.training.trees import tree_training
from mirage.policies.registry import FORECASTS, POLICIES, RULES
from mirage.policies.results.card_results import MODEL, format_column
from mirage.policies.results.comparison import Results


class HoldoutMetrics:
    """Gathers the model's choices in each window, then runs the rules on the same hand-overs.

    The rules decide at the same instants as the model, each `every`-th, and at the same prices.
    """

    def __init__(self, rows: Rows, tables: Sequence[EpisodeTable], every: int) -> None:
        """`rows` of all the tables, each `every`-th instant of them."""
        self._logged_tables = [(k, t) for k, t in enumerate(tables) if t.metadata.has_logged_load]
        self._every = every
        # As `Rows.from_tables` has sorted them.
        points = np.concatenate([t.start_point for t in tables])
        order = np.argsort(points, kind="stable")
        self._table_of = np.repeat(np.arange(len(tables)), [len(t) for t in tables])[order]
        self._row_of = np.concatenate([np.arange(len(t)) for t in tables])[order]
        self._instants_by_price: dict[float, Ints] = {}
        self._no_instants = np.full(len(rows), -1, dtype=np.int64)

    def __call__(self, window: Flags, price: float, instants: Ints) -> None:
        """Record the model's choices in a window of `Rows` (mask [E]) at one price.

        `instants`: for each hand-over of the window the decision instant at which the model frees.
        """
        self._instants_by_price.setdefault(price, self._no_instants.copy())[window] = instants

    def list_results(self) -> list[dict[str, Any]]:
        """List the results of each table with judged hand-overs, as `card_results` reads them."""
        sets = (
            self._build_result_set(table_index, table) for table_index, table in self._logged_tables
        )
        return [result_set for result_set in sets if result_set is not None]

    def list_operating_points(self) -> list[dict[str, Any]]:
        """List the operating point of each table at the logged load and each limit of `OVERLAPS_H`.

        `operating_points.find_operating_point` finds each.
        """
        return [
            _describe_chain(table)
            | {"overlap_at_most_h": limit_h}
            | self._find_operating_point(table_index, table, limit_h)
            for table_index, table in self._logged_tables
            for limit_h in operating_points.OVERLAPS_H
        ]

    def _find_operating_point(
        self, table_index: int, table: EpisodeTable, limit_h: float
    ) -> dict[str, Any]:
        is_of_table = self._table_of == table_index
        rows = self._row_of[is_of_table]
        decision_instants = list_decision_instants(table.outcome_s.shape[1], self._every)
        x_h, is_judged = {}, np.zeros(len(rows), dtype=np.bool_)
        for price, instants in self._instants_by_price.items():
            is_judged = instants[is_of_table] >= 0
            x_h[price] = table.outcome_h[
                rows[is_judged], decision_instants[instants[is_of_table][is_judged]]
            ]
        return operating_points.find_operating_point(
            x_h, table.start_point[rows[is_judged]], limit_h
        )

    def _build_result_set(self, table_index: int, table: EpisodeTable) -> dict[str, Any] | None:
        is_of_table = self._table_of == table_index
        by_price = {
            p: self._instants_by_price[p][is_of_table]
            for p in tree_training.PRICES
            if p in self._instants_by_price
        }
        rows = self._row_of[is_of_table]
        judged_results = [
            (p, self._collect_results(table, p, rows, k)) for p, k in by_price.items()
        ]
        if not judged_results or not len(judged_results[0][1]):
            return None
        first = judged_results[0][1]
        return {
            **_describe_chain(table),
            "start_point": format_column(first.start_point),
            "known_at": format_column(np.max([r.known_at for _, r in judged_results], axis=0)),
            "load_s": format_column(_to_seconds(first.load_h)),
            "x_s": {
                str(price): _format_columns(result_set) for price, result_set in judged_results
            },
        }

    def _collect_results(
        self, table: EpisodeTable, price: float, rows: Ints, instants: Ints
    ) -> Results:
        """Collect the results of the judged hand-overs."""
        decision_instants = list_decision_instants(table.outcome_s.shape[1], self._every)
        was_judged = instants >= 0
        asked_s = frozenset((table.instant_s[-1] - table.instant_s[decision_instants]).tolist())
        model = policy_runner.choose_reactive(table)
        model[rows[was_judged]] = decision_instants[instants[was_judged]]
        instants_by_policy = {MODEL: model}
        # Without the twin's forecasts, the fall-back of these policies would be judged.
        forecasts = FORECASTS if table.twins is not None else ()
        for name in (*forecasts, *RULES):
            instants_by_policy[name] = policy_runner.run_policy(
                table, _AtLearnedInstants(POLICIES[name], asked_s), price
            )
        return walk_forward.collect_results(table, instants_by_policy).select_rows(
            np.sort(rows[was_judged])
        )


@dataclass(frozen=True, slots=True)
class _AtLearnedInstants(SimplePolicy):
    """A policy that is only asked at the instants that models learn from."""

    policy: Policy
    left_s: frozenset[int]
    """Seconds to the predecessor's end."""

    @property
    def name(self) -> str:
        return self.policy.name

    def decide(self, view: PolicyView) -> Decision:
        if view.time_left_s not in self.left_s:
            return Decision(action=Action.WAIT, reason="not asked", policy=self.name)
        return self.policy.decide(view)


def _describe_chain(table: EpisodeTable) -> dict[str, Any]:
    """Return the kind of chain whose hand-overs a table has."""
    metadata = table.metadata
    return {
        "cluster": str(metadata.cluster.get("name", "")),
        "partition": metadata.partition,
        "nodes": metadata.nodes,
        "time_limit_s": metadata.time_limit_s,
    }


def _format_columns(results: Results) -> dict[str, str]:
    return {
        name: format_column(_to_seconds(results.x_h[:, p])) for p, name in enumerate(results.names)
    }


def _to_seconds(hours: Any) -> Ints:
    return np.round(np.asarray(hours) * HOUR_S).astype(np.int64)
