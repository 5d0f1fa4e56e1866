"""Pinned standbys: whether one may stand on its predecessor's nodes, and when it has to leave them.

What is read of Slurm's queue does not show which nodes a pending job asks for, so that a standby is
pinned is known from the database alone (`update_position`). One that asks for nodes itself is
refused by the cluster (`ports.Cluster.pin`), once, and not asked for again.
"""

from dataclasses import dataclass
from typing import Any

from mirage.domain.chain import Link, Position
from mirage.domain.job import Job
from mirage.domain.snapshot import Node, Snapshot
from mirage.errors import MalformedText
from mirage.provision.control.limits import Limits
from mirage.slurm.text import hostlist

_UNFIT = "BadConstraints"
"""Slurm's word for a pending job whose nodes do not have what it asks for (--constraint), or are
among those it will not have (--exclude). It takes such a pin (22.05.8), and never starts it.
"""
_UNDOING = 1
"""A move that is kept back: whatever is pinned must be let off its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """One standby, its predecessor as the queue shows it, and what the admin allows."""

    standby: Link
    shown: Job | None
    """The standby in the queue."""
    predecessor: Job | None
    snapshot: Snapshot
    limits: Limits
    touches: int = 0
    """Moves of this standby so far."""
    refused: bool = False
    """Slurm would not pin it."""

    def build_view_fields(self) -> dict[str, Any]:
        """The fields of a PolicyView that are about positions."""
        return {
            "position": self.standby.position,
            "planned_start": None if self.shown is None else self.shown.planned_start,
            "can_pin": self.is_allowed and self.has_good_nodes,
        }

    @property
    def is_allowed(self) -> bool:
        """Return whether the admin and Slurm allow the pin.

        A standby that is pinned already may stay so, however many moves it has cost.
        """
        room = not self.refused and self.touches + _UNDOING < self.limits.max_touches
        return self.limits.allow_pin and (room or self.standby.position is Position.PINNED)

    @property
    def has_good_nodes(self) -> bool:
        """The predecessor's nodes are usable, fit the standby, and none has room for both links.

        While nobody has told of the nodes, nothing is pinned and nothing unpinned.
        """
        if self.shown is not None and self.shown.reason == _UNFIT:
            return False
        nodes = self.list_nodes()
        if self.predecessor is None or self.shown is None or not nodes:
            return self.standby.position is Position.PINNED and not self.snapshot.nodes
        return all(
            n.is_usable and not _can_fit_both(n, self.predecessor, self.shown) for n in nodes
        )

    def list_nodes(self) -> list[Node]:
        """The predecessor's; none where one of them is not known."""
        if self.predecessor is None:
            return []
        try:
            names = hostlist.expand_hostlist(self.predecessor.node_list)
        except MalformedText:
            return []
        found = [self.snapshot.node_by_name.get(name) for name in names]
        return [node for node in found if node is not None] if None not in found else []


def _can_fit_both(node: Node, predecessor: Job, standby: Job) -> bool:
    """Return whether the node could run both jobs at once.

    Each job is taken to be spread evenly over its nodes. GPUs that are not known could fit.
    """
    cpus = predecessor.cpus / predecessor.nodes + standby.cpus / standby.nodes
    gpus = (predecessor.gpus or 0) / predecessor.nodes + (standby.gpus or 0) / standby.nodes
    return cpus <= node.cpus and gpus <= node.gpus
