"""Sums up the overlap that chains have spent lately, and that released standbys may still cost.

Slurm carries a planned release out even if the service is down. So each plan must fit into the
budgets together with all plans that come before it.

A user must not be able to use up the budgets of all by releasing standbys. So the budgets of
account and cluster count only what has overlapped, and what standbys may still cost that the
service itself released or planned. Of each owner they count at most `Limits.user_overlap_node_h`. A
plan of the running link counts for its owner alone until it overlaps. A plan that a user wrote
counts nowhere. The time for which a job held nodes that it gave back counts as overlap.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby

from mirage.database.chains import chains
from mirage.database.chains.open_links import (
    list_open_links,
    list_overlapping_chains,
    list_owners,
    list_released_standbys,
)
from mirage.database.chains.returned_links import list_returned_links
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import ChainId, Link, LinkState, Planner, Position
from mirage.domain.handover import list_handovers
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.provision.control.limits import Limits, Spent, compute_overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Node-hours of overlap, spent or still possible."""

    owner: int
    """The uid of the chain's owner."""
    account: str
    node_h: float
    shared: bool = True
    """Whether it counts for account and cluster, and not for its owner alone."""
    release_at: int = 0
    """When a planned release is due."""


@dataclass(slots=True)
class OverlapBudget:
    """What has been spent of the budgets, and what is planned. A tick adds what it decides."""

    limits: Limits
    spent: list[Overlap]
    """Of the last 24 h, with what freed standbys may still cost."""
    planned: dict[tuple[ChainId, int], Overlap]
    """What planned releases cost if the standbys start at once, by chain and index."""

    def sum_spent(self, account: str, owner: int) -> Spent:
        """Return the overlap that a release now is added to."""
        return self._sum_overlaps(self.spent, account, owner)

    def sum_with_plans(self, account: str, owner: int, standby: Link) -> Spent:
        """Return the overlap that a planned release of the standby is added to.

        For a plan that exists, that includes the plans that come before it; for a new plan, all
        plans. So if too much is planned, the latest plans are taken back.
        """
        key = (standby.chain_id, standby.index)
        own = self.planned.get(key)
        others = [
            plan
            for other, plan in self.planned.items()
            if other != key and (own is None or (plan.release_at, other) < (own.release_at, key))
        ]
        return self._sum_overlaps([*self.spent, *others], account, owner)

    def record_release(self, standby: Link, owner: int, node_h: float) -> None:
        """Count the overlap of a standby that is freed now, instead of its plan."""
        self.record_plan(standby, None)
        self.spent.append(Overlap(owner=owner, account=standby.account, node_h=node_h))

    def record_plan(self, standby: Link, plan: Overlap | None) -> None:
        """Count the standby's new plan; None: it has none any more."""
        self.planned.pop((standby.chain_id, standby.index), None)
        if plan is not None:
            self.planned[standby.chain_id, standby.index] = plan

    def _sum_overlaps(self, overlaps: Iterable[Overlap], account: str, owner: int) -> Spent:
        user_h, in_account, in_cluster = 0.0, dict[int, float](), dict[int, float]()
        for overlap in overlaps:
            user_h += overlap.node_h if overlap.owner == owner else 0.0
            if overlap.shared:
                in_cluster[overlap.owner] = in_cluster.get(overlap.owner, 0.0) + overlap.node_h
            if overlap.shared and overlap.account == account:
                in_account[overlap.owner] = in_account.get(overlap.owner, 0.0) + overlap.node_h
        most_h = self.limits.user_overlap_node_h
        return Spent(
            user=user_h,
            account=sum(min(node_h, most_h) for node_h in in_account.values()),
            cluster=sum(min(node_h, most_h) for node_h in in_cluster.values()),
        )


def read_overlap_budget(
    tx: Transaction, cluster_id: int, now: int, limits: Limits
) -> OverlapBudget:
    """Return the overlap of the last 24 h, and of the releases that stand in Slurm."""
    owners = list_owners(tx, cluster_id)
    under_way, planned = list(_iter_under_way(tx, cluster_id)), list(_iter_planned(tx, cluster_id))
    waiting = [(link.chain_id, link.index) for _, link in [*under_way, *planned]]
    released = list_released_standbys(tx, cluster_id, waiting)

    def is_services(link: Link) -> bool:
        job_ids = (link.job_id, None)  # None: the service had the link submitted
        return any((link.chain_id, link.index, job_id) in released for job_id in job_ids)

    spent = [*_iter_complete(tx, cluster_id, now), *_iter_returned(tx, cluster_id, now)]
    plans = dict[tuple[ChainId, int], Overlap]()
    for predecessor, link in under_way:
        overlap = _build_under_way(
            predecessor, link, owners[link.chain_id], now, by_service=is_services(link)
        )
        spent += [overlap] if overlap is not None else []
    for predecessor, link in planned:
        plan = _build_planned(
            predecessor, link, owners[link.chain_id], now, by_service=is_services(link)
        )
        if plan is not None:
            plans[link.chain_id, link.index] = plan
    return OverlapBudget(limits=limits, spent=spent, planned=plans)


def _iter_complete(tx: Transaction, cluster_id: int, now: int) -> Iterator[Overlap]:
    for row in chains.list_handovers(tx, cluster_id, since=now - DAY_S):
        hours = compute_overlap(row.predecessor, row.successor, now)
        yield Overlap(owner=row.chain.uid, account=row.successor.account, node_h=hours)


def _iter_returned(tx: Transaction, cluster_id: int, now: int) -> Iterator[Overlap]:
    """Yield what jobs that gave their nodes back have held, whatever became of their link."""
    for owner, link in list_returned_links(tx, cluster_id, now - DAY_S):
        yield Overlap(owner=owner, account=link.account, node_h=link.returned_node_h)


def _iter_under_way(tx: Transaction, cluster_id: int) -> Iterator[tuple[Link, Link]]:
    """Yield running links with a successor that runs beside them, or that Mirage has freed."""
    by_chain = chains.list_links_by_chain(tx, cluster_id, list_overlapping_chains(tx, cluster_id))
    for links in by_chain.values():
        for predecessor, successor in list_handovers(links):
            is_released = successor.state is LinkState.RUNNING or successor.freed_at is not None
            if predecessor.state is LinkState.RUNNING and is_released:
                yield predecessor, successor


def _iter_planned(tx: Transaction, cluster_id: int) -> Iterator[tuple[Link, Link]]:
    """Yield running links with a standby whose release is planned in Slurm, by anybody."""
    by_chain = groupby(list_open_links(tx, cluster_id), key=lambda link: link.chain_id)
    for predecessor, standby in chain.from_iterable(list_handovers(list(li)) for _, li in by_chain):
        at, end = standby.planned_release, predecessor.get_planned_end()
        if at is None or end is None:
            continue
        if standby.position is Position.HELD and predecessor.state is LinkState.RUNNING:
            yield predecessor, standby


def _build_under_way(
    predecessor: Link, successor: Link, owner: int, now: int, *, by_service: bool
) -> Overlap | None:
    """Return the overlap of a released link; None if its user released it and it still waits.

    If the service released the link (`by_service`), that is the overlap up to the predecessor's
    planned end. Otherwise only the overlap so far is certain, and only that counts.
    """
    if not by_service and successor.start is not None:
        predecessor = replace(predecessor, end=now)
    elif not by_service and successor.freed_by is Planner.USER:
        return None
    return Overlap(
        owner=owner,
        account=successor.account,
        node_h=compute_overlap(predecessor, successor, now),
        shared=by_service or successor.start is not None,
    )


def _build_planned(
    predecessor: Link, standby: Link, owner: int, now: int, *, by_service: bool
) -> Overlap | None:
    """Return what the standby's plan may cost; None for a plan of its user's."""
    at, end = standby.planned_release, predecessor.get_planned_end()
    if at is None or end is None or standby.planned_by is Planner.USER:
        return None
    return build_plan(standby, owner, end, release_at=at, now=now, shared=by_service)


def build_plan(
    standby: Link, owner: int, end: int, *, release_at: int, now: int, shared: bool = True
) -> Overlap:
    """Return the overlap of a planned release, at worst up to the predecessor's planned `end`."""
    span_s = max(0, end - max(release_at, now))
    return Overlap(
        owner=owner,
        account=standby.account,
        node_h=span_s / HOUR_S * standby.nodes,
        shared=shared,
        release_at=release_at,
    )
