"""Planning by number of free nodes (section 7)."""

from mirage.simulator.types import Params
from tests.support.simulator.reference.cluster import Entry


def rounded_up(t: int, grid: int) -> int:
    return -(-t // grid) * grid


class Profile:
    """Free nodes over time, from each step to the next. The last step's number lasts for ever."""

    def __init__(self, params: Params, now: int, up: set[int], running: list[Entry]) -> None:
        self.now = now
        self.grid = params.bf_resolution_s
        self.horizon = now + params.bf_window_s
        held = {n for r in running for n in r.allocated}
        gains = {now: len(up - held)}
        for r in running:
            end = rounded_up(max(r.end_by_limit, now + 1), self.grid)
            if end < self.horizon:
                gains[end] = gains.get(end, 0) + len(set(r.allocated) & up)
        self.free: dict[int, int] = {}
        total = 0
        for t in sorted(gains):
            total += gains[t]
            self.free[t] = total

    def first_start(self, entry: Entry, earliest: int) -> int | None:
        """Return the first step at which the job's nodes are free for its whole limit."""
        for step in sorted(self.free):
            end = rounded_up(step + entry.job.time_limit_s, self.grid)
            free_nodes = [free for t, free in self.free.items() if step <= t < end]
            if step >= earliest and min(free_nodes) >= entry.job.nodes:
                return step
        return None

    def take(self, entry: Entry, start: int) -> None:
        end = rounded_up(start + entry.job.time_limit_s, self.grid)
        if end < self.horizon and end not in self.free:
            self.free[end] = self.free[max(t for t in self.free if t < end)]
        for t in self.free:
            if start <= t and (t < end or end >= self.horizon):
                self.free[t] -= entry.job.nodes

    def earliest(
        self, entry: Entry, up: set[int], running: list[Entry], started_nodes: set[int]
    ) -> int:
        """Return the instant before which the job cannot be planned.

        `running`: without the jobs that this pass started; `started_nodes`: the nodes of these.
        """
        pinned = set(entry.pinned)
        if pinned & started_nodes or not pinned <= up:
            return self.horizon
        ends = [max(r.end_by_limit, self.now + 1) for r in running if pinned & set(r.allocated)]
        return max([rounded_up(end, self.grid) for end in ends], default=self.now)
