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
"""Of a price: what changes by less is not written again."""


def price_chain(chain: Chain, links: Sequence[Link], jobs: Waits, like: Link) -> Chain:
    """The chain at the price of now.

    `links`: its own, for the start-up. `jobs`: the last of the partition. `like`: the link whose
    nodes and time limit the next one has.
    """
    limit_s = like.time_limit_s
    if not has_worked_out_price(chain) or not limit_s or limit_s == UNLIMITED:
        return chain
    measured = measure_start_up_s(links)
    start_up_s = START_UP_S if measured is None else measured
    waits = sample_like_waits(jobs, like.nodes, limit_s)
    missed_s = estimate_missed_s(waits, start_up_s, limit_s)
    price = round(compute_switch_price(start_up_s, missed_s, limit_s), _DIGITS)
    whole_minutes = MINUTE_S * round(missed_s / MINUTE_S)
    return replace(chain, overlap_price=price, start_up_s=measured, missed_s=whole_minutes)


def price_handovers(
    tx: Transaction,
    cluster_id: int,
    open_ones: Sequence[OpenHandover],
    read_jobs: Callable[[str], Waits],
) -> list[OpenHandover]:
    """The hand-overs with their chains at the price of now. `read_jobs`: of a partition."""
    priced = [one.chain.chain_id for one in open_ones if has_worked_out_price(one.chain)]
    if not priced:
        return list(open_ones)
    by_chain = chains.list_links_by_chain(tx, cluster_id, priced)
    found = []
    for one in open_ones:
        links = by_chain.get(one.chain.chain_id, [])
        chain = one.chain
        if has_worked_out_price(chain):
            chain = price_chain(chain, links, read_jobs(one.standby.partition), one.predecessor)
        found.append(replace(one, chain=chain))
    return found
