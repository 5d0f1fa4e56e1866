"""Planning by number of free nodes (section 7)."""

from mirage.simulator.types import Params
from tests.support.simulator.reference.cluster import Entry


def rounded_up(t: int, grid: int) -> int:
    return -(-t // grid) * grid


class Profile:
    """Free nodes over time: what is free from each step to the next; the last lasts for ever."""

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
        """The first step at which the job's nodes are free for its whole limit."""
        for s in sorted(self.free):
            e = rounded_up(s + entry.job.time_limit_s, self.grid)
            span = [free for t, free in self.free.items() if s <= t < e]
            if s >= earliest and min(span) >= entry.job.nodes:
                return s
        return None

    def take(self, entry: Entry, s: int) -> None:
        e = rounded_up(s + entry.job.time_limit_s, self.grid)
        if e < self.horizon and e not in self.free:
            self.free[e] = self.free[max(t for t in self.free if t < e)]
        for t in self.free:
            if s <= t and (t < e or e >= self.horizon):
                self.free[t] -= entry.job.nodes

    def earliest(self, entry: Entry, up: set[int], running: list[Entry], given: set[int]) -> int:
        """Before when the job cannot be planned; `running` without what this pass started."""
        mine = set(entry.pinned)
        if mine & given or not mine <= up:
            return self.horizon
        ends = [max(r.end_by_limit, self.now + 1) for r in running if mine & set(r.allocated)]
        return max([rounded_up(end, self.grid) for end in ends], default=self.now)
