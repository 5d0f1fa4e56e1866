"""A hand-over: from a predecessor's end to its successor's start."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirage.domain.chain import OVERLAP_PRICE, Link
from mirage.domain.time_units import HOUR_S


@dataclass(frozen=True, slots=True)
class Handover:
    """A complete hand-over: two instants in epoch seconds, and the time of returns before.

    At most one of interruption and overlap is positive, unless the successor gave nodes back.
    """

    predecessor_end: int
    successor_start: int
    returned_s: int = 0
    """Seconds for which earlier jobs of the successor held its nodes, and gave them back."""

    @property
    def interruption_h(self) -> float:
        return max(0, self.successor_start - self.predecessor_end) / HOUR_S

    @property
    def overlap_h(self) -> float:
        overlap_s = max(0, self.predecessor_end - self.successor_start)
        return (self.returned_s + overlap_s) / HOUR_S

    def compute_cost_h(self, overlap_price: float = OVERLAP_PRICE) -> float:
        """Return interruption + λ·overlap, in hours."""
        return self.interruption_h + overlap_price * self.overlap_h


class LinkPair(NamedTuple):
    """Two links of a chain between which work is handed over, or is to be."""

    predecessor: Link
    successor: Link

    @property
    def over(self) -> Handover | None:
        """Return the hand-over; None until its predecessor has ended and its successor started."""
        if self.predecessor.end is None or self.successor.start is None:
            return None
        return Handover(self.predecessor.end, self.successor.start, self.successor.returned_s)


def list_handovers(links: Sequence[Link]) -> list[LinkPair]:
    """Return the hand-overs of one chain, complete or to come; `links` are sorted by index.

    A link that was cancelled while it waited is neither predecessor nor successor.
    """
    pairs = []
    for position, link in enumerate(links):
        predecessor = None if link.has_vanished else find_predecessor(link, links[:position])
        if predecessor is not None:
            pairs.append(LinkPair(predecessor, link))
    return pairs


def find_predecessor(link: Link, links: Sequence[Link]) -> Link | None:
    """Return the last earlier link that ran or, if `link` has not started, that may still run.

    `links` are the chain's, sorted by index. `database.chains.chains` has the same rule in SQL,
    for links that have started.
    """
    earlier = (other for other in reversed(links) if other.index < link.index)
    if link.start is None:
        return next((other for other in earlier if not other.has_vanished), None)
    return next((other for other in earlier if other.start is not None), None)
