"""Compares the costs of policies on the same hand-overs, by load class."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats
from mirage.episodes.judge.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.episodes.judge.policy_runner import Chosen
from mirage.episodes.table.episode_table import EpisodeTable

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
    """How long before the predecessor's end the successor became eligible."""

    @classmethod
    def from_choices(cls, table: EpisodeTable, chosen: Chosen, startup_h: float = 0.0) -> Self:
        rows = np.arange(len(table))
        lead_s = int(table.instant_s[-1]) - table.instant_s[chosen].astype(np.float64)
        return cls(
            start_point=table.start_point,
            x_h=table.outcome_h[rows, chosen] + startup_h,
            lead_h=lead_s / 3600.0,
        )

    @classmethod
    def join_outcomes(cls, parts: Iterable[Self]) -> Self:
        """Join the hand-overs of several tables."""
        columns = zip(*((p.start_point, p.x_h, p.lead_h) for p in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    @property
    def interruption_h(self) -> Floats:
        return np.maximum(self.x_h, 0.0)

    @property
    def overlap_h(self) -> Floats:
        return np.maximum(-self.x_h, 0.0)

    def compute_cost_h(self, overlap_price: float) -> Floats:
        return self.interruption_h + overlap_price * self.overlap_h


def build_class_masks(reactive_interruption_h: Floats) -> dict[str, NDArray[np.bool_]]:
    """Build the masks [E] of the load classes. Leave out the startup time, which is not the
    cluster's load."""
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
    interval over resampled days. gap_closed = (reactive - policy) / (reactive - oracle) in mean
    cost, None if that gap is under 0.1 h.
    """
    counts = draw_day_counts(policies["reactive"].start_point)
    told: Figures = {name: {} for name in policies}
    for load, mask in masks.items():
        ends = tuple(
            policies[n].compute_cost_h(overlap_price)[mask] for n in ("reactive", "oracle")
        )
        for name, handovers in policies.items():
            scored = _ClassOutcomes.from_outcomes(handovers, mask, overlap_price)
            told[name][load] = _compute_figures(scored, ends, counts[:, mask])
    return told


@dataclass(frozen=True, slots=True)
class _ClassOutcomes:
    """One policy's hand-overs of one class: columns [E]."""

    interruption_h: Floats
    overlap_h: Floats
    zero_interruption_pct: Floats
    cost_h: Floats
    lead_h: Floats

    @classmethod
    def from_outcomes(
        cls, handovers: HandoverOutcomes, mask: NDArray[np.bool_], overlap_price: float
    ) -> Self:
        return cls(
            interruption_h=handovers.interruption_h[mask],
            overlap_h=handovers.overlap_h[mask],
            zero_interruption_pct=np.where(handovers.x_h[mask] <= 0.0, 100.0, 0.0),
            cost_h=handovers.compute_cost_h(overlap_price)[mask],
            lead_h=handovers.lead_h[mask],
        )


_FIGURES = ("interruption_h", "overlap_h", "zero_interruption_pct", "cost_h", "lead_h")


def _compute_figures(
    scored: _ClassOutcomes, ends: tuple[Floats, ...], counts: Floats
) -> dict[str, Any]:
    told: dict[str, Any] = {"episodes": len(scored.cost_h)}
    empty = not len(scored.cost_h)
    for name in _FIGURES:
        values: Floats = getattr(scored, name)
        told[name] = None if empty else float(values.mean())
        told[f"{name}_ci"] = None if empty else compute_interval(compute_means(counts, values))
    return told | _compute_gap(scored.cost_h, ends, counts)


def _compute_gap(cost_h: Floats, ends: tuple[Floats, ...], counts: Floats) -> dict[str, Any]:
    reactive, oracle = ends
    if not len(cost_h) or reactive.mean() - oracle.mean() < LEAST_GAP_H:
        return {"gap_closed": None, "gap_closed_ci": None}
    closed = (reactive.mean() - cost_h.mean()) / (reactive.mean() - oracle.mean())
    saved, gap = compute_means(counts, reactive - cost_h), compute_means(counts, reactive - oracle)
    wide = np.nan_to_num(gap) >= LEAST_GAP_H
    drawn = np.divide(saved, gap, out=np.full(len(gap), np.nan), where=wide)
    return {"gap_closed": float(closed), "gap_closed_ci": compute_interval(drawn)}
