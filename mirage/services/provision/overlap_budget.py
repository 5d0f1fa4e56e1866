"""Sums up the overlap that chains have spent lately, and that freed standbys may still cost."""

from collections.abc import Iterator
from itertools import pairwise

from mirage.domain.chain import Link, LinkState
from mirage.domain.time_units import DAY_S
from mirage.services.control.limits import compute_overlap
from mirage.store.chains import chains
from mirage.store.chains.open_links import list_overlapping_chains
from mirage.store.database.engine import Transaction


def read_spent_by_account(tx: Transaction, cluster_id: int, now: int) -> dict[str, float]:
    """Return the overlap of the last 24 h by account, in node-hours."""
    spent: dict[str, float] = {}
    for row in chains.list_handovers(tx, cluster_id, since=now - DAY_S):
        account = row.successor.account
        hours = compute_overlap(row.predecessor, row.successor, now)
        spent[account] = spent.get(account, 0.0) + hours
    for predecessor, successor in _iter_under_way(tx, cluster_id):
        hours = compute_overlap(predecessor, successor, now)
        spent[successor.account] = spent.get(successor.account, 0.0) + hours
    return spent


def _iter_under_way(tx: Transaction, cluster_id: int) -> Iterator[tuple[Link, Link]]:
    """Yield running links with a successor that runs beside them, or that Mirage has freed."""
    beside = chains.list_links_by_chain(tx, list_overlapping_chains(tx, cluster_id))
    for links in beside.values():
        for predecessor, successor in pairwise(links):
            freed = successor.state is LinkState.RUNNING or successor.freed_at is not None
            if predecessor.state is LinkState.RUNNING and freed:
                yield predecessor, successor
