"""Computes the expected cost of a release if an early link may hold its nodes or give them back.

A release with L seconds left of the predecessor costs the seconds by which its link is late. If the
link is early instead, it costs the smaller of two: the overlap price times the seconds for which
its nodes are idle, or the cost of giving the nodes back and of the best new release after that. All
waits of a forecast are equally likely, and the same holds for a later release.
docs/decisions/0039-release-by-expected-cost.md has the formulas, and the weeks of the tests.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage.domain.arrays import Floats
from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.policies.rules.return_rule import BACK_S, choose_return_lead, look_up_return_lead

FRESH_S = 1200
"""Seconds for which a forecast says what giving back costs. After a longer wait, the link's own
wait is better evidence."""
_LEADS_BETWEEN_WAITS = 3
"""The number of leads that are tried between two neighbouring waits, besides the waits."""
_POINTS = 12
"""The number of points of a `ReturnCosts`."""


@dataclass(frozen=True, slots=True)
class Release:
    """The cheapest release of a standby by the present forecast."""

    lead_s: int
    """Seconds before the predecessor's end; no more than are left."""
    cost_s: float
    """The expected cost, in seconds of interruption."""


@dataclass(frozen=True, slots=True)
class ReturnCosts:
    """The expected cost of the best new release, by the time left when the nodes are given back."""

    left_s: tuple[int, ...]
    """Seconds until the predecessor's end, ascending."""
    cost_s: tuple[int, ...]
    """The expected cost in seconds of interruption, without the cost of giving back itself."""
    lead_s: tuple[int, ...]
    """How many seconds before the predecessor's end the new release is."""


class ReleaseCosts:
    """The expected costs of all releases of one standby, from one forecast of its wait."""

    def __init__(
        self, waits_s: ArrayLike, price: float, returns: int, back_s: int = BACK_S
    ) -> None:
        """`waits_s`: equally likely waits in seconds, one at least. `price`: the overlap price.
        `returns`: how often the link may still give its nodes back. `back_s`: the seconds of its
        nodes that each return costs."""
        self._waits: Floats = np.sort(np.maximum(np.asarray(waits_s, dtype=np.float64), 0.0))
        self._price, self._back_s, self.returns = price, back_s, returns
        self.leads_s = _spread_leads(self._waits)
        """The leads that are tried, ascending: none is longer than the longest wait."""
        self._best: list[Floats] = []
        """By returns left: the least cost over the leads up to each of `leads_s`."""
        # With n returns left, the cost depends on the best release with n - 1 left: from 0 upwards.
        for _ in range(returns + 1):
            costs = self._compute_costs(self.leads_s, len(self._best))
            self._best.append(np.minimum.accumulate(costs))

    def compute_cost_s(self, left_s: float) -> float:
        """Compute the expected cost of a release with `left_s` seconds left, in seconds."""
        return float(self._compute_costs(np.array([float(left_s)]), self.returns)[0])

    def choose_release(self, left_s: float) -> Release:
        """Choose the cheapest of the releases from now to the predecessor's end.

        Of equally cheap ones it is the earliest: a release that comes too late because waits grow
        cannot be made earlier afterwards.
        """
        leads = self.leads_s[self.leads_s < left_s]
        leads = np.append(leads, max(0.0, left_s))
        costs = self._compute_costs(leads, self.returns)
        k = len(costs) - 1 - int(costs[::-1].argmin())
        return Release(lead_s=round(float(leads[k])), cost_s=float(costs[k]))

    def compute_return_costs(self, most_left_s: int) -> ReturnCosts:
        """Compute the costs that a link expects after it gives its nodes back once more.

        `most_left_s`: the most seconds left that the costs are needed for. They are empty if the
        link may not give its nodes back.
        """
        if self.returns < 1 or most_left_s <= 0:
            return ReturnCosts((), (), ())
        best, n = self._best[self.returns - 1], self.returns - 1
        costs = self._compute_costs(self.leads_s, n)
        points = np.unique(np.linspace(0, len(self.leads_s) - 1, _POINTS).round().astype(np.int64))
        points = points[self.leads_s[points] <= most_left_s]
        cheapest = [int(costs[: k + 1].argmin()) for k in points]
        return ReturnCosts(
            left_s=tuple(round(float(self.leads_s[k])) for k in points),
            cost_s=tuple(round(float(best[k])) for k in points),
            lead_s=tuple(round(float(self.leads_s[k])) for k in cheapest),
        )

    def _compute_costs(self, leads: Floats, returns: int) -> Floats:
        """Compute the mean cost [L] of each lead [L] over the waits, with so many returns left.

        This is C(L) of decision 0039.
        """
        early_s = leads[:, None] - self._waits
        early_cost = self._price * early_s
        if returns > 0:
            release_again = self._find_least_cost(early_s - self._back_s, returns - 1)
            early_cost = np.minimum(early_cost, self._price * self._back_s + release_again)
        costs: Floats = np.where(early_s > 0.0, early_cost, -early_s).mean(axis=1)
        return costs

    def _find_least_cost(self, left_s: Floats, returns: int) -> Floats:
        """Return the least cost of a release with at most `left_s` left; infinite after the end.

        This is V of decision 0039.
        """
        indices = np.searchsorted(self.leads_s, left_s, side="right") - 1
        least: Floats = np.where(indices >= 0, self._best[returns][np.maximum(indices, 0)], np.inf)
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

    `waits_s`: the equally likely waits that were expected at its release. They decide while they
    are fresh (`FRESH_S`); else, or without any, the link's own last wait decides. `returns`: how
    often the link may give its nodes back, this time included. The instants of its release, its
    start and its predecessor's end are in seconds of one clock.
    """
    left_s, waited_s = end_s - start_s, start_s - released_s
    if not waits_s or waited_s > FRESH_S:
        return choose_return_lead(left_s, waited_s, price)
    costs = ReleaseCosts(waits_s, price, returns).compute_return_costs(end_s - released_s)
    points = list(zip(costs.left_s, costs.cost_s, costs.lead_s, strict=True))
    return look_up_return_lead(points, left_s, price)


def bound_new_lead(
    lead_s: int | None, left_s: int, waited_s: int, max_overlap_s: int
) -> int | None:
    """Return the lead in seconds that max-overlap allows; None: the link keeps its nodes.

    A link with more than `max_overlap_s` left gives its nodes back, whatever the rule says.
    `waited_s`: how long it waited. mirage_slurm/planner/give_back.py has the same rule.
    """
    if lead_s is None:
        if left_s <= max_overlap_s:
            return None
        lead_s = max(MINUTE_S, left_s - BACK_S - MINUTE_S)
    # Released so long before the end, it overlaps as it may if it waits as long as now.
    return min(lead_s, max_overlap_s + waited_s)


def decide_by_cost(view: PolicyView, forecast: Forecast, name: str) -> Decision:
    """Free the standby if no later release is expected to cost less.

    `forecast` has waits that are equally likely if it is freed now; the policy `name` made it.
    """
    costs = ReleaseCosts(forecast.waits_s, view.overlap_price, view.returns)
    best = costs.choose_release(view.time_left_s)
    is_now = view.time_left_s - best.lead_s < 1
    now_h = costs.compute_cost_s(max(0, view.time_left_s)) / HOUR_S
    if is_now:
        reason = f"a release now is expected to cost {now_h:.2f} h, and a later one no less"
    else:
        ahead_min = (view.time_left_s - best.lead_s) / MINUTE_S
        reason = (
            f"a release now is expected to cost {now_h:.2f} h, and one in {ahead_min:.0f} min "
            f"{best.cost_s / HOUR_S:.2f} h"
        )
    return Decision(
        action=Action.FREE if is_now else Action.WAIT,
        reason=reason,
        policy=name,
        forecast=forecast,
        release_at=view.predecessor_end - best.lead_s,
    )


def _spread_leads(waits: Floats) -> Floats:
    """Return 0, each of the waits, and _LEADS_BETWEEN_WAITS leads between neighbours, ascending."""
    ends: Floats = np.unique(np.concatenate([[0.0], waits]))
    steps = np.linspace(0.0, 1.0, _LEADS_BETWEEN_WAITS + 1, endpoint=False)[:, None]
    between = ends[:-1] + steps * np.diff(ends)
    return np.append(between.T.ravel(), ends[-1])
