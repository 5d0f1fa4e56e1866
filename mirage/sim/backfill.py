"""Conservative backfill: when would each pending job start, nobody delaying anybody ahead of it.

A profile is a step function of free nodes: `free[i]` from `times[i]` until `times[i + 1]`, the last
step until the end of the window, beyond which nothing is planned (bf_window). Ends are rounded up
to bf_resolution, so no plan promises more than the limits do.
"""

from bisect import bisect_left
from collections.abc import Sequence

from mirage.domain.timelimit import UNLIMITED
from mirage.sim.types import Entry, Params


class Profile:
    """Free nodes over time, from which jobs take their places in priority order."""

    def __init__(self, params: Params, now: int, free: int, running: Sequence[Entry]) -> None:
        """`running` holds the nodes of each running job, `key` being its end by the limit."""
        self.grid = params.bf_resolution_s
        self.horizon = now + params.bf_window_s
        self.now = now
        self.times = [now]
        self.free = [free]
        self._last_start: dict[tuple[int, int], int] = {}
        for end, _, nodes, _ in running:
            at = max(self.rounded(end), now)
            if at >= self.horizon:
                break
            free += nodes
            if at == self.times[-1] and at != now:
                self.free[-1] = free
            elif at > now:
                self.times.append(at)
                self.free.append(free)

    def rounded(self, at: int) -> int:
        """Up to the planning grid."""
        return -(-at // self.grid) * self.grid

    def place(self, nodes: int, time_limit_s: int, earliest: int = 0) -> int | None:
        """Take the first place of that size; its start, or None when it lies beyond the window."""
        times, free = self.times, self.free
        shape = (nodes, time_limit_s)
        # Space only shrinks within a plan: the same shape never finds a place before its last one.
        i = bisect_left(times, max(self._last_start.get(shape, 0), earliest))
        count = len(times)
        while i < count:
            if free[i] < nodes:
                i += 1
                continue
            end = -(-(times[i] + time_limit_s) // self.grid) * self.grid
            j = i + 1
            while j < count and times[j] < end and free[j] >= nodes:
                j += 1
            if j == count or times[j] >= end:
                self._last_start[shape] = times[i]
                self._reserve(i, j, nodes, end)
                return times[i]
            i = j + 1
        self._last_start[shape] = self.horizon
        return None

    def _reserve(self, i: int, j: int, nodes: int, end: int) -> None:
        times, free = self.times, self.free
        if end < self.horizon and (j == len(times) or times[j] != end):
            times.insert(j, end)
            free.insert(j, free[j - 1])
        for k in range(i, j):
            free[k] -= nodes

    def longest_now(self) -> list[int]:
        """By number of nodes: the longest limit that could still start now."""
        reach: list[int] = []
        lowest = self.free[0]
        for at, free in zip(self.times, self.free, strict=True):
            if free < lowest:
                reach.extend([at - self.now] * (lowest - free))
                lowest = free
        reach.extend([UNLIMITED] * (lowest + 1))
        reach.reverse()
        return reach


def nothing_fits_now(profile: Profile, waiting: Sequence[Entry]) -> bool:
    """Whether none of `waiting` could start now: planning further starts nobody."""
    reach = profile.longest_now()
    size = len(reach)
    return not any(n < size and limit <= reach[n] for _, _, n, limit in waiting)
