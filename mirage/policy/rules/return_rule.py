"""Keep or give back: what a sequential link does that has started before its predecessor's end.

Kept, its nodes stand idle until then. Given back, a new job of the same link waits behind the
predecessor with a planned release, and the link ends within seconds. The last wait is the best
evidence of the next one (docs/decisions/0038-an-early-link-gives-back.md), so no service and no
other job is asked. slurm_plugin/mirage_return.py has the same rule for links; both pass
tests/data/give-back-cases.json.
"""

import math
from collections.abc import Sequence

BACK_S = 360
"""Seconds of the link's nodes that giving back costs: prolog, carrier, epilog."""
FLOOR_S = 600
"""No wait is expected to be shorter: Slurm's backfill takes minutes to come round."""
_MARGIN_S = 60
"""A new release lies at least so long after the link has gone: a minute that has passed releases at
once."""


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
    if not 0.0 < price < math.inf or waited_s < 0 or back_s < 0:
        return None
    waits = [max(FLOOR_S, wait_s) for wait_s in (waited_s // 2, waited_s, 2 * waited_s)]
    leads = sorted({lead_s for lead_s in waits if lead_s <= left_s - back_s - _MARGIN_S})
    if not leads:
        return None
    cost_s, lead_s = min((_compute_cost(lead_s, waits, price), lead_s) for lead_s in leads)
    return None if price * left_s <= price * back_s + cost_s else lead_s


def _compute_cost(lead_s: int, waits: Sequence[int], price: float) -> float:
    late_s = sum(max(0, wait_s - lead_s) for wait_s in waits)
    early_s = sum(max(0, lead_s - wait_s) for wait_s in waits)
    return (late_s + price * early_s) / len(waits)
