"""What a release is expected to cost, where an early link may hold its nodes or give them back.

A release with L seconds left of the predecessor costs what its link comes late by; or, if the link
comes early, the less of two: the overlap price times the seconds that its nodes stand idle, or what
giving them back costs and the best new release after that. The waits of a forecast are equally
likely, and stay so: a later release waits as a present one does. The formulas, and the weeks that
they were tried on: docs/decisions/0039-release-by-expected-cost.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage.domain.arrays import Floats
from mirage.policy.rules.return_rule import BACK_S

_BETWEEN = 3
"""Leads are tried at the waits, and at so many places between two of them."""
_POINTS = 12
"""The points at which `ReturnCosts` are told."""


@dataclass(frozen=True, slots=True)
class Release:
    """The cheapest release of a standby, by the forecast of now."""

    lead_s: int
    """Seconds before the predecessor's end; no more than are left."""
    cost_s: float
    """What it is expected to cost, in seconds of interruption."""


@dataclass(frozen=True, slots=True)
class ReturnCosts:
    """What the best new release is expected to cost, by the time left when the nodes are given
    back; all in seconds."""

    left_s: tuple[int, ...]
    """Seconds until the predecessor's end, ascending."""
    cost_s: tuple[int, ...]
    """In seconds of interruption; what giving back itself costs is not in it."""
    lead_s: tuple[int, ...]
    """The new release is that long before the predecessor's end."""


class ReleaseCosts:
    """The expected costs of all releases of one standby, from one forecast of its wait."""

    def __init__(
        self, waits_s: ArrayLike, price: float, returns: int, back_s: int = BACK_S
    ) -> None:
        """`waits_s`: equally likely waits, one at least. `returns`: how often the link may still
        give its nodes back."""
        self._waits: Floats = np.sort(np.maximum(np.asarray(waits_s, dtype=np.float64), 0.0))
        self._price, self._back_s, self.returns = price, back_s, returns
        self._leads = _spread_leads(self._waits)
        self._best: list[Floats] = []
        """By returns left: the least cost over the leads up to each of `_leads`."""
        for _ in range(returns + 1):
            costs = self._compute_costs(self._leads, len(self._best))
            self._best.append(np.minimum.accumulate(costs))

    def compute_cost_s(self, left_s: float, returns: int | None = None) -> float:
        """Compute what a release with `left_s` seconds left is expected to cost."""
        left = self.returns if returns is None else returns
        return float(self._compute_costs(np.array([float(left_s)]), left)[0])

    def choose_release(self, left_s: float) -> Release:
        """Choose the cheapest of the releases from now to the predecessor's end; of equals the
        earliest, since a wait that grows cannot be made up for."""
        leads = self._leads[self._leads < left_s]
        leads = np.append(leads, max(0.0, left_s))
        costs = self._compute_costs(leads, self.returns)
        k = len(costs) - 1 - int(costs[::-1].argmin())
        return Release(lead_s=round(float(leads[k])), cost_s=float(costs[k]))

    def compute_return_costs(self, most_left_s: int) -> ReturnCosts:
        """Tell what a link that gives its nodes back is to expect, with one return less left."""
        if self.returns < 1 or most_left_s <= 0:
            return ReturnCosts((), (), ())
        best, n = self._best[self.returns - 1], self.returns - 1
        costs = self._compute_costs(self._leads, n)
        places = np.unique(np.linspace(0, len(self._leads) - 1, _POINTS).round().astype(np.int64))
        places = places[self._leads[places] <= most_left_s]
        chosen = [int(costs[: k + 1].argmin()) for k in places]
        return ReturnCosts(
            left_s=tuple(round(float(self._leads[k])) for k in places),
            cost_s=tuple(round(float(best[k])) for k in places),
            lead_s=tuple(round(float(self._leads[k])) for k in chosen),
        )

    def _compute_costs(self, leads: Floats, returns: int) -> Floats:
        """Compute C [L] of the leads [L] with so many returns left."""
        early = leads[:, None] - self._waits
        held = self._price * early
        if returns > 0:
            again = self._look_up(early - self._back_s, returns - 1)
            held = np.minimum(held, self._price * self._back_s + again)
        costs: Floats = np.where(early > 0.0, held, -early).mean(axis=1)
        return costs

    def _look_up(self, left_s: Floats, returns: int) -> Floats:
        """Return V of the seconds left: the least cost of a release by then; infinite after the
        end."""
        places = np.searchsorted(self._leads, left_s, side="right") - 1
        least: Floats = np.where(places >= 0, self._best[returns][np.maximum(places, 0)], np.inf)
        return least


def _spread_leads(waits: Floats) -> Floats:
    """Return the leads that are tried, ascending: none is longer than the longest wait."""
    ends: Floats = np.unique(np.concatenate([[0.0], waits]))
    steps = np.linspace(0.0, 1.0, _BETWEEN + 1, endpoint=False)[:, None]
    between = ends[:-1] + steps * np.diff(ends)
    return np.append(between.T.ravel(), ends[-1])
