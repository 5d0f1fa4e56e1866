"""Keep or give back: what a sequential link does that has started before its predecessor's end.

Kept, its nodes stand idle until then. Given back, a new job of the same link waits behind the
predecessor with a planned release, and the link ends within seconds. The last wait is the best
evidence of the next one (docs/decisions/0038-an-early-link-gives-back.md), unless a service has
just forecast it: then the link looks up what a new release costs. No other job is asked. Where an
early start costs no more than that, the first release is planned earlier.
slurm_plugin/mirage_forecast.py has the same rules for links; both pass
tests/data/give-back-cases.json.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

BACK_S = 360
"""Seconds of the link's nodes that giving back costs: prolog, carrier, epilog."""
FLOOR_S = 300
"""No wait is expected to be shorter: Slurm's backfill takes minutes to come round."""
_MARGIN_S = 60
"""A new release lies at least so long after the link has gone: a minute that has passed releases at
once. By a table it lies no nearer to the predecessor's end: Slurm counts whole minutes."""


def choose_return_lead(
    left_s: int, waited_s: int, price: float, back_s: int = BACK_S
) -> int | None:
    """Return how many seconds before its predecessor's end the link is to be released again, or
    None: it keeps its nodes.

    `left_s`: the seconds until that end. `waited_s`: how long the link waited from its release to
    its start. The next wait is half of that, the same or twice as long, equally likely. A lead
    costs what it is late by and `price` times what it is early by. Keeping costs `price` times
    `left_s`. Numbers that make no sense keep.
    """
    again = _plan_return(left_s, waited_s, price, back_s)
    return again[1] if again is not None and again[0] < price * left_s else None


def look_up_return_lead(
    points: Sequence[tuple[int, int, int]], left_s: int, price: float, back_s: int = BACK_S
) -> int | None:
    """Return the lead as `choose_return_lead` does, by what a new release is expected to cost.

    `points`: (seconds left as the nodes are given back, the cost of the best new release from then
    on, its lead), ascending. The cost is interpolated. The lead is that of the nearest lower point;
    where a longer one did not fit there, it is as long as fits, up to that of the next point. With
    less left than at the first point the link keeps its nodes.
    """
    back_at_s = left_s - back_s
    lower = sum(point[0] <= back_at_s for point in points) - 1
    if lower < 0 or back_s < 0 or not 0.0 < price < math.inf:
        return None
    from_s, from_cost_s, lead_s = points[lower]
    cost_s = float(from_cost_s)
    if lower + 1 < len(points):
        to_s, to_cost_s, longer_s = points[lower + 1]
        cost_s += (to_cost_s - from_cost_s) * (back_at_s - from_s) / (to_s - from_s)
        if lead_s == from_s:
            lead_s = min(back_at_s, longer_s)
    lead_s = max(_MARGIN_S, lead_s)
    keeps = price * left_s <= price * back_s + cost_s
    return None if keeps or lead_s > back_at_s else lead_s


@lru_cache(maxsize=4096)  # hand-overs of a tick read the same waits, and each takes milliseconds
def choose_first_lead(waits_s: tuple[int, ...], price: float) -> int:
    """Return the cheapest lead, in seconds, of a link that may give its nodes back.

    `waits_s`: what similar jobs waited, one at least; the lead is one of them. Each is as likely as
    the others. An early start costs the less of keeping and giving back. Of equals the shortest.
    """
    return min(
        set(waits_s),
        key=lambda lead_s: (sum(_compute_cost(lead_s, w, price) for w in waits_s), lead_s),
    )


def _plan_return(left_s: int, waited_s: int, price: float, back_s: int) -> tuple[float, int] | None:
    """Return what giving back is expected to cost, in seconds of interruption, and the next lead;
    None where no lead fits."""
    if not 0.0 < price < math.inf or waited_s < 0 or back_s < 0:
        return None
    waits = list_next_waits(waited_s)
    leads = [lead_s for lead_s in waits if lead_s <= left_s - back_s - _MARGIN_S]
    costs = [
        (sum(max(0, w - lead_s) + price * max(0, lead_s - w) for w in waits) / len(waits), lead_s)
        for lead_s in leads
    ]
    if not costs:
        return None
    cost_s, lead_s = min(costs)
    return price * back_s + cost_s, lead_s


def list_next_waits(waited_s: int) -> list[int]:
    """List the waits that a new release may have, ascending, by the last one's."""
    return [max(FLOOR_S, wait_s) for wait_s in (waited_s // 2, waited_s, 2 * waited_s)]


def _compute_cost(lead_s: int, wait_s: int, price: float) -> float:
    """Compute what the lead costs if the wait is this long, in seconds of interruption."""
    if wait_s >= lead_s:
        return wait_s - lead_s
    left_s = lead_s - wait_s
    again = _plan_return(left_s, wait_s, price, BACK_S)
    return price * left_s if again is None else min(price * left_s, again[0])
