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
from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.policies.rules.return_rule import BACK_S, choose_return_lead, look_up_return_lead

FRESH_S = 1200
"""A forecast says for so many seconds what giving back costs. A link that has waited for longer has
seen a wait of its own, which is better evidence."""
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
        self.leads_s = _spread_leads(self._waits)
        """The leads that are tried, ascending: none is longer than the longest wait."""
        self._best: list[Floats] = []
        """By returns left: the least cost over the leads up to each of `leads_s`."""
        for _ in range(returns + 1):
            costs = self._compute_costs(self.leads_s, len(self._best))
            self._best.append(np.minimum.accumulate(costs))

    def compute_cost_s(self, left_s: float) -> float:
        """Compute what a release with `left_s` seconds left is expected to cost."""
        return float(self._compute_costs(np.array([float(left_s)]), self.returns)[0])

    def choose_release(self, left_s: float) -> Release:
        """Choose the cheapest of the releases from now to the predecessor's end; of equals the
        earliest, since a wait that grows cannot be made up for."""
        leads = self.leads_s[self.leads_s < left_s]
        leads = np.append(leads, max(0.0, left_s))
        costs = self._compute_costs(leads, self.returns)
        k = len(costs) - 1 - int(costs[::-1].argmin())
        return Release(lead_s=round(float(leads[k])), cost_s=float(costs[k]))

    def compute_return_costs(self, most_left_s: int) -> ReturnCosts:
        """Tell what a link that gives its nodes back is to expect, with one return less left."""
        if self.returns < 1 or most_left_s <= 0:
            return ReturnCosts((), (), ())
        best, n = self._best[self.returns - 1], self.returns - 1
        costs = self._compute_costs(self.leads_s, n)
        places = np.unique(np.linspace(0, len(self.leads_s) - 1, _POINTS).round().astype(np.int64))
        places = places[self.leads_s[places] <= most_left_s]
        chosen = [int(costs[: k + 1].argmin()) for k in places]
        return ReturnCosts(
            left_s=tuple(round(float(self.leads_s[k])) for k in places),
            cost_s=tuple(round(float(best[k])) for k in places),
            lead_s=tuple(round(float(self.leads_s[k])) for k in chosen),
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
        places = np.searchsorted(self.leads_s, left_s, side="right") - 1
        least: Floats = np.where(places >= 0, self._best[returns][np.maximum(places, 0)], np.inf)
        return least


def choose_new_lead(
    waits_s: tuple[int, ...],
    price: float,
    returns: int,
    *,
    released_s: int,
    start_s: int,
    end_s: int,
) -> int | None:
    """Return how long before its predecessor's end an early link is released again, in seconds, or
    None: it keeps its nodes.

    `waits_s`: what its release was expected to wait, equally likely; while that is fresh, it
    decides. Else, and where it is empty, the link's own last wait does. `returns`: how often the
    link may give its nodes back, now included. The instants of its release, its start and its
    predecessor's end are in seconds of one clock.
    """
    left_s, waited_s = end_s - start_s, start_s - released_s
    if not waits_s or waited_s > FRESH_S:
        return choose_return_lead(left_s, waited_s, price)
    costs = ReleaseCosts(waits_s, price, returns).compute_return_costs(end_s - released_s)
    points = list(zip(costs.left_s, costs.cost_s, costs.lead_s, strict=True))
    return look_up_return_lead(points, left_s, price)


def decide_by_cost(view: PolicyView, forecast: Forecast, name: str) -> Decision:
    """Free the standby if no later release is expected to cost less.

    `forecast` has waits that are equally likely if it is freed now; the policy `name` made it.
    """
    costs = ReleaseCosts(forecast.waits_s, view.overlap_price, view.returns)
    best = costs.choose_release(view.time_left_s)
    frees = view.time_left_s - best.lead_s < 1
    now_h = costs.compute_cost_s(max(0, view.time_left_s)) / HOUR_S
    if frees:
        reason = f"a release now is expected to cost {now_h:.2f} h, and a later one no less"
    else:
        ahead_min = (view.time_left_s - best.lead_s) / MINUTE_S
        reason = (
            f"a release now is expected to cost {now_h:.2f} h, and one in {ahead_min:.0f} min "
            f"{best.cost_s / HOUR_S:.2f} h"
        )
    return Decision(
        action=Action.FREE if frees else Action.WAIT,
        reason=reason,
        policy=name,
        forecast=forecast,
        release_at=view.predecessor_end - best.lead_s,
    )


def _spread_leads(waits: Floats) -> Floats:
    """Spread leads over the waits: each of them, and some places between two neighbours."""
    ends: Floats = np.unique(np.concatenate([[0.0], waits]))
    steps = np.linspace(0.0, 1.0, _BETWEEN + 1, endpoint=False)[:, None]
    between = ends[:-1] + steps * np.diff(ends)
    return np.append(between.T.ravel(), ends[-1])
