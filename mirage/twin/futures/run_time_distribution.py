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
    """[groups, OWN_KEPT], filled up to `own_counts`."""
    own_counts: Ints
    all: Floats
    """[classes, ALL_KEPT]."""
    all_counts: Ints


class RingBuffers:
    """The latest values of each of a growing number of groups."""

    __slots__ = ("_added", "_values")

    def __init__(self, groups: int, size: int) -> None:
        self._values: Floats = np.full((groups, size), np.inf)
        self._added: Ints = np.zeros(groups, dtype=np.int64)

    def add_value(self, group: int, value: float) -> None:
        if group >= len(self._added):
            self._make_room(group)
        self._values[group, self._added[group] % self._values.shape[1]] = value
        self._added[group] += 1

    def sort_values(self) -> tuple[Floats, Ints]:
        """Return the values of each group, ascending, [groups, size], and how many values each has.

        Empty places are infinite, so that they come last.
        """
        return np.sort(self._values, axis=1), np.minimum(self._added, self._values.shape[1])

    def fork(self) -> "RingBuffers":
        copy = RingBuffers.__new__(RingBuffers)
        copy._values, copy._added = self._values.copy(), self._added.copy()  # noqa: SLF001 - of its own kind
        return copy

    def _make_room(self, group: int) -> None:
        missing = max(group + 1, 2 * len(self._added)) - len(self._added)
        self._values = np.concatenate(
            [self._values, np.full((missing, self._values.shape[1]), np.inf)]
        )
        self._added = np.concatenate([self._added, np.zeros(missing, dtype=np.int64)])


class RunTimeDistribution:
    """The knowledge of run times. Forks share the numbers of groups, which never change."""

    __slots__ = ("_all", "_numbers", "_own")

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._own = RingBuffers(64, OWN_KEPT)
        self._all = RingBuffers(_CLASSES, ALL_KEPT)

    def assign_groups(self, user: str, time_limit_s: int, nodes: int) -> tuple[int, int, int]:
        """Return the numbers of a job's groups: its user's like jobs, all jobs of its user, and
        everybody's jobs of about its limit."""
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
        # A draw may ask for a group that has a number and no end yet.
        own, counts = self._own.sort_values()
        missing = max(0, len(self._numbers) - len(counts))
        own = np.concatenate([own, np.full((missing, OWN_KEPT), np.inf)])
        counts = np.concatenate([counts, np.zeros(missing, dtype=np.int64)])
        return RunShares(own, counts, *self._all.sort_values())

    def fork(self) -> "RunTimeDistribution":
        """Return an independent copy."""
        copy = RunTimeDistribution.__new__(RunTimeDistribution)
        copy._numbers = self._numbers  # noqa: SLF001 - of its own kind
        copy._own, copy._all = self._own.fork(), self._all.fork()  # noqa: SLF001
        return copy


def clamp_limit(time_limit_s: int) -> int:
    """Return the limit that shares refer to, in seconds."""
    return max(1, min(time_limit_s, LONGEST_S))


def _find_limit_class(time_limit_s: int) -> int:
    steps = -(-clamp_limit(time_limit_s) // _SHORTEST_S) - 1
    return min(steps.bit_length(), _CLASSES - 1)


@allocating_kernel
def count_beyond(values: Floats, count: int, least: float) -> int:
    """Count those of the first `count` values, ascending, that are greater than `least`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[middle] > least:
            high = middle
        else:
            low = middle + 1
    return count - low


@allocating_kernel
def draw_share(
    shares: RunShares, group: Ints, elapsed_share: float, group_die: float, run_die: float
) -> float:
    """Draw the share of its limit that a job runs, beyond `elapsed_share`.

    Returns 1.0 if no run was so long. `group`: int64[3] of `RunTimeDistribution.assign_groups`.
    `group_die`, in [0, 1), chooses the group that the job goes by; `run_die`, in [0, 1), chooses
    one of its runs, the shortest for 0.
    """
    like, own, everybody = group
    like_count = count_beyond(shares.own[like], shares.own_counts[like], elapsed_share)
    own_count = count_beyond(shares.own[own], shares.own_counts[own], elapsed_share)
    all_count = count_beyond(shares.all[everybody], shares.all_counts[everybody], elapsed_share)
    own_weight = PRIOR / (shares.own_counts[own] + PRIOR)
    all_weight = PRIOR * own_weight * all_count / max(1, shares.all_counts[everybody])
    point = group_die * (like_count + own_weight * own_count + all_weight)
    if point < like_count:
        return _pick_value(shares.own[like], shares.own_counts[like], like_count, run_die)
    if point < like_count + own_weight * own_count:
        return _pick_value(shares.own[own], shares.own_counts[own], own_count, run_die)
    if all_count:
        return _pick_value(shares.all[everybody], shares.all_counts[everybody], all_count, run_die)
    return 1.0


class RunTimeInputs(NamedTuple):
    """The columns, of equal length, of jobs whose run time is to be drawn."""

    groups: Ints
    """[n, 3] of `RunTimeDistribution.assign_groups`."""
    limit_s: Ints
    """The time limit that shares refer to (`clamp_limit`)."""
    elapsed_share: Floats
    """The share of its limit that a job has run so far; below 0: it has not started."""
    run_share: Floats
    """The share of its limit that the job runs in all; below 0: the share is to be drawn."""
    users: Ints
    """The row of the random numbers that the jobs of the same user share."""


@allocating_kernel
def draw_run_times(
    shares: RunShares,
    jobs: RunTimeInputs,
    rows: Ints,
    user_dice: Floats,
    own_dice: Floats,
    together: float,
) -> Ints:
    """Draw the run times of some rows of `jobs` in one future: int64[rows], seconds.

    A job that needs all of its limit is ended by the limit, whatever the limit is. `user_dice`:
    float64[users, 2]; `own_dice`: float64[rows, 3], all in [0, 1). With probability `together` a
    job goes by its user's numbers.
    """
    run_s = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        row = rows[i]
        share = jobs.run_share[row]
        if share < 0.0:
            group_die, run_die = own_dice[i, 0], own_dice[i, 1]
            if own_dice[i, 2] < together:
                group_die, run_die = user_dice[jobs.users[row], 0], user_dice[jobs.users[row], 1]
            share = draw_share(
                shares, jobs.groups[row], jobs.elapsed_share[row], group_die, run_die
            )
        run_s[i] = FAR >> 1 if share >= 1.0 else int(np.rint(share * jobs.limit_s[row]))
    return run_s


@allocating_kernel
def _pick_value(values: Floats, count: int, beyond_least: int, run_die: float) -> float:
    return float(values[count - beyond_least + int(run_die * beyond_least)])
