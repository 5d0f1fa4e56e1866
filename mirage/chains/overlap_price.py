"""Works out the default price of an hour of overlap, which depends on the chain's style.

In a *switch* chain nothing runs twice. A release that is an hour too early only causes more
hand-overs, and each hand-over has its start-up and its interruption. The price is therefore
(start-up + expected interruption) / time limit, within two bounds.
mirage_slurm/planner/lead_rules.py has the same formula for the links' own plans. A link measures
the start-up up to its lease (`past_waits.compute_start_up`). The service does not see leases, so it
measures up to the predecessor's end.
"""

from collections.abc import Sequence

from mirage.domain.chain import OVERLAP_PRICE, Chain, Link, Style
from mirage.domain.handover import list_handovers
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.policies.rules.switch_price import LEAST_SWITCH_PRICE, MOST_SWITCH_PRICE, START_UP_S

MOST_START_UP_S = 4 * HOUR_S
"""The longest overlap that counts as a start-up, in seconds; `MOST_START_UP_S` in
mirage_slurm/planner/lead_rules.py is the same. In a longer one the predecessor did not answer."""


def get_first_price(style: Style | None, asked_price: float | None) -> float:
    """Return the price of a chain of which no link is known yet; `asked_price` is its user's."""
    if asked_price is not None:
        return asked_price
    return MOST_SWITCH_PRICE if style is Style.SWITCH else OVERLAP_PRICE


def has_worked_out_price(chain: Chain) -> bool:
    """Return whether the price is worked out: its links switch, and its user gave no price."""
    return chain.style is Style.SWITCH and chain.asked_price is None


def measure_start_up_s(links: Sequence[Link]) -> int | None:
    """Return the median start-up of a switch chain's links, in seconds; None: none is known yet.

    A link that starts beside its predecessor asks for the lease as soon as it is ready, and the
    predecessor ends. So the start-up is the time from the link's start to the predecessor's end. No
    start-up is known from a link that started later, that ended first, or whose overlap was longer
    than MOST_START_UP_S.
    """
    start_ups_s = sorted(
        before.end - link.start
        for before, link in list_handovers(links)
        if link.start is not None
        and before.end is not None
        and before.end > link.start
        and before.end - link.start <= MOST_START_UP_S
        and (link.end is None or link.end > before.end)
    )
    return start_ups_s[len(start_ups_s) // 2] if start_ups_s else None


def describe_price(chain: Chain) -> str:
    """Say in words where the price of a chain comes from."""
    if chain.asked_price is not None:
        return "as its user asked"
    if not has_worked_out_price(chain):
        return "the default: nodes of two links are held"
    if chain.missed_s is None:
        return "links that switch run nothing twice; no past waits were looked at yet"
    start_up_s = START_UP_S if chain.start_up_s is None else chain.start_up_s
    origin = "assumed" if chain.start_up_s is None else "measured"
    return (
        f"links that switch run nothing twice: {start_up_s / MINUTE_S:.0f} min of start-up "
        f"({origin}) and {chain.missed_s / MINUTE_S:.0f} min of expected interruption, divided by "
        f"the time limit, at least {LEAST_SWITCH_PRICE:g} and at most {MOST_SWITCH_PRICE:g}"
    )
