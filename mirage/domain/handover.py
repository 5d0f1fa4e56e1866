"""A hand-over: from a predecessor's end to its successor's start."""

from dataclasses import dataclass

from mirage.domain.time_units import HOUR_S

OVERLAP_PRICE = 0.5
"""λ: the cost of an hour of overlap in hours of interruption, unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Two instants in epoch seconds; at most one of interruption and overlap is positive."""

    predecessor_end: int
    successor_start: int

    @property
    def interruption_h(self) -> float:
        return max(0, self.successor_start - self.predecessor_end) / HOUR_S

    @property
    def overlap_h(self) -> float:
        return max(0, self.predecessor_end - self.successor_start) / HOUR_S

    def compute_cost_h(self, overlap_price: float = OVERLAP_PRICE) -> float:
        """Return interruption + λ·overlap, in hours."""
        return self.interruption_h + overlap_price * self.overlap_h
