"""Keeps the price of overlap of chains whose links switch: worked out anew at each tick.

Prices that users gave, and those of other styles, stay as they were registered.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mirage.chains.open_handovers import OpenHandover
from mirage.chains.overlap_price import has_worked_out_price, measure_start_up_s
from mirage.database.chains import chains
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, Link
from mirage.domain.decision import Waits
from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import UNLIMITED
from mirage.policies.rules.lead_rules import sample_like_waits
from mirage.policies.rules.switch_price import START_UP_S, compute_switch_price, estimate_missed_s

_DIGITS = 3
"""Digits of a price after the point, so that a smaller change is not stored."""


def price_chain(chain: Chain, links: Sequence[Link], jobs: Waits, running_link: Link) -> Chain:
    """Return the chain with the price that its links and the waits now give.

    `links` are the chain's, for the start-up. `jobs` are the last waits in the partition. The next
    link has the nodes and the time limit of `running_link`.
    """
    limit_s = running_link.time_limit_s
    if not has_worked_out_price(chain) or not limit_s or limit_s == UNLIMITED:
        return chain
    measured = measure_start_up_s(links)
    start_up_s = START_UP_S if measured is None else measured
    waits = sample_like_waits(jobs, running_link.nodes, limit_s)
    missed_s = estimate_missed_s(waits, start_up_s, limit_s)
    price = round(compute_switch_price(start_up_s, missed_s, limit_s), _DIGITS)
    whole_minutes = MINUTE_S * round(missed_s / MINUTE_S)
    return replace(chain, overlap_price=price, start_up_s=measured, missed_s=whole_minutes)


def price_handovers(
    tx: Transaction,
    cluster_id: int,
    handovers: Sequence[OpenHandover],
    read_job_waits: Callable[[str], Waits],
) -> list[OpenHandover]:
    """Return the hand-overs with their chains at the price that holds now.

    `read_job_waits` returns the last waits in a partition.
    """
    chain_ids = [h.chain.chain_id for h in handovers if has_worked_out_price(h.chain)]
    if not chain_ids:
        return list(handovers)
    by_chain = chains.list_links_by_chain(tx, cluster_id, chain_ids)
    priced = []
    for handover in handovers:
        chain = handover.chain
        if has_worked_out_price(chain):
            links = by_chain.get(chain.chain_id, [])
            waits = read_job_waits(handover.standby.partition)
            chain = price_chain(chain, links, waits, handover.predecessor)
        priced.append(replace(handover, chain=chain))
    return priced
