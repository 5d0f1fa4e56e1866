"""Estimates run times: the distribution of run time / time limit, learned from ended jobs.

A job is like its user's jobs of the same limit and width, then like its user's, then like
everybody's of about that limit. Each of the three distributions is drawn towards the next by
`PRIOR` runs' worth. All are cut at the time that the job has run so far: a job that has run t runs
longer than t.
"""

from typing import NamedTuple

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.simulator.arrays.jit import allocating_kernel
from mirage.simulator.arrays.layout import FAR

OWN_KEPT = 64
"""The number of latest runs that count, of a user and of a user's similar jobs."""
ALL_KEPT = 512
"""The number of latest runs that count, of all users' jobs of about one limit."""
PRIOR = 2.0
"""The weight of the wider group, in runs, beside a job's own runs."""
LONGEST_S = 30 * 86400
"""The time limit used for a longer limit, and for no limit."""

_SHORTEST_S = 900
_CLASSES = 14
"""Upper bounds of the classes of limits: 15 min, 30 min, 1 h, and so on, each twice the one
before."""


class RunShares(NamedTuple):
    """The shares of their limits that the latest jobs of each group ran, ascending."""

    own: Floats
    """[groups, OWN_KEPT], filled up to `own_held`."""
    own_held: Ints
    all: Floats
    """[classes, ALL_KEPT]."""
    all_held: Ints


class RingBuffers:
    """The latest values of each of a growing number of groups."""

    __slots__ = ("_seen", "_values")

    def __init__(self, groups: int, kept: int) -> None:
        self._values: Floats = np.full((groups, kept), np.inf)
        self._seen: Ints = np.zeros(groups, dtype=np.int64)

    def add_value(self, group: int, value: float) -> None:
        if group >= len(self._seen):
            self._make_room(group)
        self._values[group, self._seen[group] % self._values.shape[1]] = value
        self._seen[group] += 1

    def sort_values(self) -> tuple[Floats, Ints]:
        """[groups, kept], and how many of each are values; what is empty stands behind them."""
        return np.sort(self._values, axis=1), np.minimum(self._seen, self._values.shape[1])

    def fork(self) -> "RingBuffers":
        twin = RingBuffers.__new__(RingBuffers)
        twin._values, twin._seen = self._values.copy(), self._seen.copy()  # noqa: SLF001 - of its own kind
        return twin

    def _make_room(self, group: int) -> None:
        more = max(group + 1, 2 * len(self._seen)) - len(self._seen)
        self._values = np.concatenate(
            [self._values, np.full((more, self._values.shape[1]), np.inf)]
        )
        self._seen = np.concatenate([self._seen, np.zeros(more, dtype=np.int64)])


class RunTimeDistribution:
    """The knowledge of run times. Forks share the numbers of groups, which never change."""

    __slots__ = ("_all", "_numbers", "_own")

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._own = RingBuffers(64, OWN_KEPT)
        self._all = RingBuffers(_CLASSES, ALL_KEPT)

    def assign_groups(self, user: str, time_limit_s: int, nodes: int) -> tuple[int, int, int]:
        """The numbers of a job's groups: its user's like jobs, its user's, everybody's."""
        numbers = self._numbers
        like = numbers.setdefault((user, time_limit_s, nodes), len(numbers))
        own = numbers.setdefault((user, 0, 0), len(numbers))
        return like, own, _find_limit_class(time_limit_s)

    def record_end(self, groups: tuple[int, int, int], *, run_s: int, time_limit_s: int) -> None:
        """Record the end of a job that had started, however it ended."""
        share = min(1.0, max(0, run_s) / clamp_limit(time_limit_s))
        like, own, everybody = groups
        self._own.add_value(like, share)
        self._own.add_value(own, share)
        self._all.add_value(everybody, share)

    def build_shares(self) -> RunShares:
        """Build the shares that draws are made from, as of the latest end."""
        # Groups that have a number and no end yet are asked about too.
        own, held = self._own.sort_values()
        missing = max(0, len(self._numbers) - len(held))
        own = np.concatenate([own, np.full((missing, OWN_KEPT), np.inf)])
        held = np.concatenate([held, np.zeros(missing, dtype=np.int64)])
        return RunShares(own, held, *self._all.sort_values())

    def fork(self) -> "RunTimeDistribution":
        """Return an independent copy."""
        twin = RunTimeDistribution.__new__(RunTimeDistribution)
        twin._numbers = self._numbers  # noqa: SLF001 - of its own kind
        twin._own, twin._all = self._own.fork(), self._all.fork()  # noqa: SLF001
        return twin


def clamp_limit(time_limit_s: int) -> int:
    """Return the limit that shares refer to, in seconds."""
    return max(1, min(time_limit_s, LONGEST_S))


def _find_limit_class(time_limit_s: int) -> int:
    steps = -(-clamp_limit(time_limit_s) // _SHORTEST_S) - 1
    return min(steps.bit_length(), _CLASSES - 1)


@allocating_kernel
def count_beyond(values: Floats, held: int, least: float) -> int:
    """Count those of the first `held` values, ascending, that are greater than `least`."""
    low, high = 0, held
    while low < high:
        middle = (low + high) // 2
        if values[middle] > least:
            high = middle
        else:
            low = middle + 1
    return held - low


@allocating_kernel
def draw_share(shares: RunShares, group: Ints, least: float, which: float, die: float) -> float:
    """One share of its limit for a job, beyond `least`. 1.0 where nothing ever ran so long.

    `group`: int64[3] of `RunTimeDistribution.assign_groups`; `which`, `die` in [0, 1): which group
    the job goes by, and which of its runs, the shortest for 0.
    """
    like, own, everybody = group
    of_like = count_beyond(shares.own[like], shares.own_held[like], least)
    of_own = count_beyond(shares.own[own], shares.own_held[own], least)
    of_all = count_beyond(shares.all[everybody], shares.all_held[everybody], least)
    towards = PRIOR / (shares.own_held[own] + PRIOR)
    all_mass = PRIOR * towards * of_all / max(1, shares.all_held[everybody])
    point = which * (of_like + towards * of_own + all_mass)
    if point < of_like:
        return _pick_value(shares.own[like], shares.own_held[like], of_like, die)
    if point < of_like + towards * of_own:
        return _pick_value(shares.own[own], shares.own_held[own], of_own, die)
    if of_all:
        return _pick_value(shares.all[everybody], shares.all_held[everybody], of_all, die)
    return 1.0


class RunTimeInputs(NamedTuple):
    """The columns, of equal length, of jobs whose run time is to be drawn."""

    groups: Ints
    """[n, 3] of `RunTimeDistribution.assign_groups`."""
    limit_s: Ints
    """The time limit that shares refer to (`clamp_limit`)."""
    least: Floats
    """The share of its limit that a job has run so far; below 0: it has not started."""
    known: Floats
    """The share of its limit that it runs in all; below 0: that is to be drawn."""
    users: Ints
    """Whose it is: the row of the random numbers that its user's jobs share."""


@allocating_kernel
def draw_run_times(
    shares: RunShares, jobs: RunTimeInputs, rows: Ints, shared: Floats, own: Floats, together: float
) -> Ints:
    """The run times of some rows of `jobs` in one future: int64[rows], seconds.

    A job that needs all of its limit is ended by the limit, whatever the limit is. `shared`:
    float64[users, 2]; `own`: float64[rows, 3], all in [0, 1). The probability is `together` that a
    job goes by its user's numbers.
    """
    run_s = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        row = rows[i]
        share = jobs.known[row]
        if share < 0.0:
            which, die = own[i, 0], own[i, 1]
            if own[i, 2] < together:
                which, die = shared[jobs.users[row], 0], shared[jobs.users[row], 1]
            share = draw_share(shares, jobs.groups[row], jobs.least[row], which, die)
        run_s[i] = FAR >> 1 if share >= 1.0 else int(np.rint(share * jobs.limit_s[row]))
    return run_s


@allocating_kernel
def _pick_value(values: Floats, held: int, beyond_least: int, die: float) -> float:
    return float(values[held - beyond_least + int(die * beyond_least)])
