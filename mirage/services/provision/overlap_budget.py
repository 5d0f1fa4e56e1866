"""Sums up the overlap that chains have spent lately, and that released standbys may still cost.

A release that is planned in Slurm happens whether or not anybody looks then. So each plan has to
fit beside all others that come before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mirage.domain.chain import ChainId, Link, LinkState, Position
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.services.control.limits import Spent, compute_overlap
from mirage.store.chains import chains
from mirage.store.chains.open_links import list_open_links, list_overlapping_chains
from mirage.store.database.engine import Transaction


@dataclass(frozen=True, slots=True)
class PlannedOverlap:
    """What the planned release of one standby costs if the standby starts at once."""

    account: str
    release_at: int
    node_h: float


@dataclass(slots=True)
class OverlapBudget:
    """What has been spent of the budgets, and what is planned. A tick adds what it decides."""

    spent: dict[str, float]
    """Node-hours of the last 24 h by account, with what freed standbys may still cost."""
    planned: dict[tuple[ChainId, int], PlannedOverlap]
    """By chain and index of the standby."""

    def sum_spent(self, account: str) -> Spent:
        """Return what a release now is held to."""
        return Spent(account=self.spent.get(account, 0.0), cluster=sum(self.spent.values()))

    def sum_with_plans(self, account: str, standby: Link) -> Spent:
        """Return what a planned release of the standby is held to.

        A plan that stands counts the plans that come before it, and a new one counts all. So the
        latest plans are those that go if too much is planned.
        """
        key = (standby.chain_id, standby.index)
        own = self.planned.get(key)
        others = [
            plan
            for other, plan in self.planned.items()
            if other != key and (own is None or (plan.release_at, other) < (own.release_at, key))
        ]
        now = self.sum_spent(account)
        return Spent(
            account=now.account + sum(p.node_h for p in others if p.account == account),
            cluster=now.cluster + sum(p.node_h for p in others),
        )

    def record_release(self, standby: Link, node_h: float) -> None:
        """Count the overlap of a standby that is freed now, instead of its plan."""
        self.record_plan(standby, None)
        self.spent[standby.account] = self.spent.get(standby.account, 0.0) + node_h

    def record_plan(self, standby: Link, plan: PlannedOverlap | None) -> None:
        """Count the standby's new plan; None: it has none any more."""
        self.planned.pop((standby.chain_id, standby.index), None)
        if plan is not None:
            self.planned[standby.chain_id, standby.index] = plan


def read_overlap_budget(tx: Transaction, cluster_id: int, now: int) -> OverlapBudget:
    """Return the overlap of the last 24 h, and of the releases that stand in Slurm."""
    return OverlapBudget(
        spent=_sum_spent_by_account(tx, cluster_id, now),
        planned=dict(_iter_planned(tx, cluster_id, now)),
    )


def _sum_spent_by_account(tx: Transaction, cluster_id: int, now: int) -> dict[str, float]:
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
    beside = chains.list_links_by_chain(tx, cluster_id, list_overlapping_chains(tx, cluster_id))
    for links in beside.values():
        for predecessor, successor in pairwise(links):
            freed = successor.state is LinkState.RUNNING or successor.freed_at is not None
            if predecessor.state is LinkState.RUNNING and freed:
                yield predecessor, successor


def _iter_planned(
    tx: Transaction, cluster_id: int, now: int
) -> Iterator[tuple[tuple[ChainId, int], PlannedOverlap]]:
    """Yield the releases that stand in Slurm, whoever planned them."""
    for predecessor, standby in pairwise(list_open_links(tx, cluster_id)):
        at, end = standby.planned_release, predecessor.get_planned_end()
        if standby.chain_id != predecessor.chain_id or at is None or end is None:
            continue
        if standby.position is Position.HELD and predecessor.state is LinkState.RUNNING:
            node_h = compute_planned_overlap(max(at, now), end, standby.nodes)
            plan = PlannedOverlap(standby.account, at, node_h)
            yield (standby.chain_id, standby.index), plan


def compute_planned_overlap(release_at: int, end: int, nodes: int) -> float:
    """Return the node-hours from a release to the predecessor's end."""
    return max(0, end - release_at) / HOUR_S * nodes
