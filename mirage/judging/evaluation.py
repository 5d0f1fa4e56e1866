"""Compares the costs of policies on the same hand-overs, by load class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import HOUR_S
from mirage.judging.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.judging.policy_runner import ChosenInstants
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.rules.return_rule import BACK_S

CLASSES = ("all", "light", "medium", "heavy")
LIGHT_H, HEAVY_H = 2.0, 12.0
"""Load classes by the reactive interruption in hours: light up to LIGHT_H, heavy above HEAVY_H
(the paper's bounds)."""
LEAST_GAP_H = 0.1
"""The share of the gap is given only if the mean costs of reactive and oracle differ by this
many hours."""

Figures = dict[str, dict[str, dict[str, Any]]]
"""{policy: {class: {figure: value}}}"""


@dataclass(frozen=True, slots=True)
class HandoverOutcomes:
    """The results of each hand-over of some tables under one policy: columns [E]."""

    start_point: NDArray[np.int64]
    x_h: Floats
    """Signed: start of the successor, startup time included, - end of the predecessor."""
    lead_h: Floats
    """Hours from the successor's last release to the predecessor's end."""
    returns: Ints | None = None
    """How often the link gave its nodes back; None if returns were not played."""

    @classmethod
    def from_choices(
        cls,
        table: EpisodeTable,
        instants: ChosenInstants,
        startup_h: float = 0.0,
        returns: Ints | None = None,
    ) -> Self:
        rows = np.arange(len(table))
        lead_s = int(table.instant_s[-1]) - table.instant_s[instants].astype(np.float64)
        return cls(
            start_point=table.start_point,
            x_h=table.outcome_h[rows, instants] + startup_h,
            lead_h=lead_s / HOUR_S,
            returns=returns,
        )

    @classmethod
    def join_outcomes(cls, parts: Iterable[Self]) -> Self:
        """Join the hand-overs of several tables. Returns were played in all of them or in none."""
        outcomes = tuple(parts)
        returns = [part.returns for part in outcomes if part.returns is not None]
        return cls(
            start_point=np.concatenate([part.start_point for part in outcomes]),
            x_h=np.concatenate([part.x_h for part in outcomes]),
            lead_h=np.concatenate([part.lead_h for part in outcomes]),
            returns=np.concatenate(returns) if returns else None,
        )

    @property
    def interruption_h(self) -> Floats:
        return np.maximum(self.x_h, 0.0)

    @property
    def overlap_h(self) -> Floats:
        return np.maximum(-self.x_h, 0.0)

    @property
    def return_h(self) -> Floats:
        """Hours of the link's nodes that its returns cost."""
        if self.returns is None:
            return np.zeros(len(self.x_h))
        return self.returns.astype(np.float64) * (BACK_S / HOUR_S)

    def compute_cost_h(self, overlap_price: float) -> Floats:
        return self.interruption_h + overlap_price * (self.overlap_h + self.return_h)

    def build_columns(self, overlap_price: float) -> dict[str, Floats]:
        """Build the columns [E] whose means are figures, by the figures' names."""
        columns = {
            "interruption_h": self.interruption_h,
            "overlap_h": self.overlap_h,
            "zero_interruption_pct": np.where(self.x_h <= 0.0, 100.0, 0.0),
            "cost_h": self.compute_cost_h(overlap_price),
            "lead_h": self.lead_h,
        }
        if self.returns is None:
            return columns
        return columns | {"returns": self.returns.astype(np.float64), "return_h": self.return_h}


def build_class_masks(reactive_interruption_h: Floats) -> dict[str, NDArray[np.bool_]]:
    """Build the masks [E] of the load classes.

    The interruption must not include the startup time, which says nothing of the cluster's load.
    """
    light = reactive_interruption_h <= LIGHT_H
    heavy = reactive_interruption_h > HEAVY_H
    everything = np.ones(len(light), dtype=bool)
    return dict(zip(CLASSES, (everything, light, ~light & ~heavy, heavy), strict=True))


def evaluate_policies(
    policies: Mapping[str, HandoverOutcomes],
    masks: Mapping[str, NDArray[np.bool_]],
    overlap_price: float,
) -> Figures:
    """Compute {policy: {class: figures}}. `reactive` and `oracle` must be among the policies.

    Figures are means per hand-over, None in a class without episodes. Each NAME has NAME_ci, a 95 %
    interval over resampled days. Where returns were played, so are `returns` (how many) and
    `return_h`. gap_closed = (reactive - policy) / (reactive - oracle) in mean
    cost, None if that gap is under 0.1 h.
    """
    counts = draw_day_counts(policies["reactive"].start_point)
    columns = {name: h.build_columns(overlap_price) for name, h in policies.items()}
    figures: Figures = {name: {} for name in policies}
    for load, mask in masks.items():
        bounds = [columns[name]["cost_h"][mask] for name in ("reactive", "oracle")]
        for name in policies:
            of_class = {figure: values[mask] for figure, values in columns[name].items()}
            figures[name][load] = _compute_figures(of_class, bounds, counts[:, mask])
    return figures


def _compute_figures(
    columns: Mapping[str, Floats], bounds: Sequence[Floats], counts: Floats
) -> dict[str, Any]:
    """Compute the figures of one policy in one class; `bounds` are the costs of both baselines."""
    figures: dict[str, Any] = {"episodes": len(columns["cost_h"])}
    for name, values in columns.items():
        is_empty = not len(values)
        figures[name] = None if is_empty else float(values.mean())
        interval = None if is_empty else compute_interval(compute_means(counts, values))
        figures[f"{name}_ci"] = interval
    return figures | _compute_gap(columns["cost_h"], bounds, counts)


def _compute_gap(cost_h: Floats, bounds: Sequence[Floats], counts: Floats) -> dict[str, Any]:
    reactive, oracle = bounds
    if not len(cost_h) or reactive.mean() - oracle.mean() < LEAST_GAP_H:
        return {"gap_closed": None, "gap_closed_ci": None}
    gap_share = (reactive.mean() - cost_h.mean()) / (reactive.mean() - oracle.mean())
    saved, gap = compute_means(counts, reactive - cost_h), compute_means(counts, reactive - oracle)
    is_wide = np.nan_to_num(gap) >= LEAST_GAP_H
    shares = np.divide(saved, gap, out=np.full(len(gap), np.nan), where=is_wide)
    return {"gap_closed": float(gap_share), "gap_closed_ci": compute_interval(shares)}
