"""Says whether a standby may be pinned to its predecessor's nodes, and when the pin has to go.

The queue does not show which nodes a pending job asks for. So only the database knows that a
standby is pinned (`update_position`). If the user asked for nodes by name, the cluster refuses the
pin (`ports.Cluster.pin_standby`), and Mirage does not try to pin that standby again.
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
"""Slurm's reason for a pending job whose nodes lack what the job asks for (--constraint), or are
among those that the job excludes (--exclude). Slurm takes such a pin (22.05.8), and never starts
the job."""
_UNPIN_TOUCHES = 1
"""Moves that are kept in reserve: a pinned standby must be able to leave its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """One standby and its predecessor as the queue shows them, and what the admin allows."""

    standby: Link
    queued_job: Job | None
    """The standby in the queue."""
    predecessor: Job | None
    snapshot: Snapshot
    limits: Limits
    touches: int = 0
    """Moves of this standby so far."""
    was_refused: bool = False
    """Whether Slurm has refused to pin the standby."""

    def build_view_fields(self) -> dict[str, Any]:
        """Return the fields of a PolicyView that are about positions."""
        return {
            "position": self.standby.position,
            "planned_start": None if self.queued_job is None else self.queued_job.planned_start,
            "can_pin": self.is_allowed and self.has_good_nodes,
        }

    @property
    def is_allowed(self) -> bool:
        """Return whether the admin and Slurm allow the pin.

        A standby that is pinned already may stay so, however many moves it has cost.
        """
        has_touches = self.touches + _UNPIN_TOUCHES < self.limits.max_touches
        can_be_new = has_touches and not self.was_refused
        return self.limits.allow_pin and (can_be_new or self.standby.position is Position.PINNED)

    @property
    def has_good_nodes(self) -> bool:
        """Return whether the predecessor's nodes are usable, fit the standby, and have no room for
        both links.

        If a node had room for both, the pinned standby would start beside its predecessor. While
        the nodes are not known, nothing is pinned and nothing unpinned.
        """
        if self.queued_job is not None and self.queued_job.reason == _UNFIT:
            return False
        nodes = self.list_nodes()
        if self.predecessor is None or self.queued_job is None or not nodes:
            return self.standby.position is Position.PINNED and not self.snapshot.nodes
        return all(
            n.is_usable and not _can_fit_both(n, self.predecessor, self.queued_job) for n in nodes
        )

    def list_nodes(self) -> list[Node]:
        """Return the predecessor's nodes; an empty list if one of them is not known."""
        if self.predecessor is None:
            return []
        try:
            names = hostlist.expand_hostlist(self.predecessor.node_list)
        except MalformedText:
            return []
        nodes = [self.snapshot.node_by_name.get(name) for name in names]
        return [node for node in nodes if node is not None] if None not in nodes else []


def _can_fit_both(node: Node, predecessor: Job, standby: Job) -> bool:
    """Return whether the node could run both jobs at once.

    Each job is taken to be spread evenly over its nodes. GPUs that are not known could fit.
    """
    cpus = predecessor.cpus / predecessor.nodes + standby.cpus / standby.nodes
    gpus = (predecessor.gpus or 0) / predecessor.nodes + (standby.gpus or 0) / standby.nodes
    return cpus <= node.cpus and gpus <= node.gpus
