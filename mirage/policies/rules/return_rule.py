"""Decides whether a sequential link that starts before its predecessor's end keeps its nodes.

If the link keeps them, they are idle until that end. If it gives them back, a new job of the same
link waits behind the predecessor with a planned release, and the early job ends within seconds. The
link's last wait is the best evidence of its next one
(docs/decisions/0038-an-early-link-gives-back.md), unless a service has just made a forecast: then
the link looks up the cost of a new release. The waits of other jobs are not used. Since an early
start costs no more than giving back does, the first release can be planned earlier
(`choose_first_lead`). mirage_slurm/planner/lead_rules.py has the same rules for links; both pass
tests/data/give-back-cases.json.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

BACK_S = 360
"""Seconds of the link's nodes that giving back costs: prolog, carrier, epilog."""
FLOOR_S = 300
"""The shortest wait that is expected, in seconds: Slurm's backfill takes minutes to come round."""
_MARGIN_S = 60
"""The least seconds from the link's end to a new release: a plan whose minute has passed releases
at once. It is also the shortest lead by a table of costs, since Slurm counts whole minutes."""


def choose_return_lead(
    left_s: int, waited_s: int, price: float, back_s: int = BACK_S
) -> int | None:
    """Return the lead of the link's next release in seconds; None if the link keeps its nodes.

    `left_s`: the seconds until the predecessor's end. `waited_s`: how long the link waited from its
    release to its start. The next wait is assumed to be half of that, the same, or twice as long,
    equally likely. A lead costs the seconds by which it is late, and `price` times those by which
    it is early. Keeping the nodes costs `price` times `left_s`. With invalid numbers, such as a
    negative wait, the link keeps its nodes.
    """
    plan = _plan_return(left_s, waited_s, price, back_s)
    return plan[1] if plan is not None and plan[0] < price * left_s else None


def look_up_return_lead(
    points: Sequence[tuple[int, int, int]], left_s: int, price: float, back_s: int = BACK_S
) -> int | None:
    """Return the lead as `choose_return_lead` does, by the expected costs of a new release.

    `points` are tuples, ascending: the seconds left when the nodes are given back, the cost of the
    best new release from then on, and that release's lead. The cost is interpolated. The lead is
    that of the nearest lower point. If the lead of that point is all the time left there, a longer
    lead did not fit. Then the lead is as long as fits now, up to that of the next point. With less
    time left than at the first point the link keeps its nodes.
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
    keeps_nodes = price * left_s <= price * back_s + cost_s
    return None if keeps_nodes or lead_s > back_at_s else lead_s


@lru_cache(maxsize=4096)  # hand-overs of a tick read the same waits, and each takes milliseconds
def choose_first_lead(waits_s: tuple[int, ...], price: float) -> int:
    """Return the cheapest lead, in seconds, of a link that may give its nodes back.

    `waits_s`: the waits of similar jobs, one at least, all equally likely; the lead is one of them.
    An early start costs the smaller of keeping and giving back. Of equally cheap leads the shortest
    is returned.
    """
    return min(
        set(waits_s),
        key=lambda lead_s: (sum(_compute_cost(lead_s, w, price) for w in waits_s), lead_s),
    )


def _plan_return(left_s: int, waited_s: int, price: float, back_s: int) -> tuple[float, int] | None:
    """Return the expected cost of giving back, in seconds of interruption, and the next lead; None
    if no lead fits."""
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
    """Compute the cost of the lead for this wait, in seconds of interruption."""
    if wait_s >= lead_s:
        return wait_s - lead_s
    left_s = lead_s - wait_s
    plan = _plan_return(left_s, wait_s, price, BACK_S)
    return price * left_s if plan is None else min(price * left_s, plan[0])
