"""The hand-overs that are under way."""

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.domain.chain import Chain, ChainState, Link, LinkState
from mirage.store import chains
from mirage.store.engine import Transaction


@dataclass(frozen=True, slots=True)
class OpenHandover:
    """A running link with its successor pending behind it."""

    chain: Chain
    predecessor: Link
    standby: Link
    beside: Link | None = None
    """An earlier link that still runs: the hand-over before this one is not over."""


def open_handovers(tx: Transaction, cluster_id: int) -> Iterator[OpenHandover]:
    """Links of active chains that have a successor pending."""
    active = [c for c in chains.live_chains(tx, cluster_id) if c.state is ChainState.ACTIVE]
    by_chain = chains.links_of(tx, [c.chain_id for c in active])
    for chain in active:
        links = {link.index: link for link in by_chain[chain.chain_id]}
        for standby in links.values():
            predecessor = links.get(standby.index - 1)
            if standby.state is not LinkState.PENDING or predecessor is None:
                continue
            running = [li for li in links.values() if li.state is LinkState.RUNNING]
            beside = next((li for li in running if li.index < predecessor.index), None)
            yield OpenHandover(chain, predecessor, standby, beside)
