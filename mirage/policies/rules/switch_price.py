"""The price of overlap for a chain whose links switch, from the waits of similar jobs."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.policies.rules.lead_rules import (
    Quantile,
    compute_best_fractile,
    compute_quantile,
    sample_like_waits,
)

START_UP_S = 600
"""The assumed start-up of a link, in seconds, until it is measured at hand-overs of its chain."""
LEAST_SWITCH_PRICE, MOST_SWITCH_PRICE = 0.01, 0.1


def compute_switch_price(start_up_s: float, missed_s: float, limit_s: float) -> float:
    """Return the price: hours of interruption for an hour of overlap. All arguments are seconds."""
    return min(MOST_SWITCH_PRICE, max(LEAST_SWITCH_PRICE, (start_up_s + missed_s) / limit_s))


def estimate_missed_s(waits: NDArray[np.int64], start_up_s: float, limit_s: float) -> float:
    """Return the expected interruption, in seconds, at the best lead for the start-up alone.

    The price depends on this interruption, and the lead on the price. So the lead is that of the
    price without any interruption. `waits`: seconds, of similar jobs; the result is 0 without them.
    """
    if not len(waits):
        return 0.0
    first_price = compute_switch_price(start_up_s, 0.0, limit_s)
    lead_s = compute_quantile(waits, compute_best_fractile(first_price))
    return float(np.maximum(0.0, waits - lead_s).mean())


class SwitchQuantile(SimplePolicy):
    """The rule `quantile` at the default price of a switch chain of which no hand-over is known.

    It computes the price from the view's jobs at each decision, and ignores the view's own price.
    """

    name = "switch-quantile"

    def __init__(self) -> None:
        self._rule = Quantile()

    def decide(self, view: PolicyView) -> Decision:
        waits = sample_like_waits(view.jobs, view.nodes, view.time_limit_s)
        missed_s = estimate_missed_s(waits, START_UP_S, view.time_limit_s)
        price = compute_switch_price(START_UP_S, missed_s, view.time_limit_s)
        return replace(self._rule.decide(replace(view, overlap_price=price)), policy=self.name)
