"""Reads how long jobs waited, over time and by class, from sums that the worker keeps."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mirage.database.jobs import wait_marks, wait_sums
from mirage.database.jobs.wait_sums import WaitCells
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.domain.wait_buckets import LIMITS, SIZES, LimitClass, SizeClass
from mirage.domain.wait_histogram import BINS, WaitSummary, summarize_waits
from mirage.errors import InputError

LEAST: Final = 10
"""The fewest jobs whose waits are shown where the cluster keeps jobs private. The waits of fewer
jobs would reveal single jobs."""
MOST_POINTS: Final = 400
BUDGET_S: Final = 0.25
"""Seconds that a tick may spend on sums. At the first start, a year of history has to be summed."""


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return HOUR_S if self is Span.HOUR else DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery:
    """A query for the waits of chosen jobs in a range of time. Empty fields do not filter."""

    since: int
    until: int
    """Not included. Both are rounded to whole hours or days (UTC), outwards."""
    by: Span = Span.DAY
    partition: str = ""
    size: SizeClass | None = None
    limit: LimitClass | None = None

    def round_range(self) -> "WaitQuery":
        """Return the query with its range rounded outwards to whole spans.

        Raises InputError if the range is empty or has more than MOST_POINTS spans.
        """
        step = self.by.seconds
        since, until = self.since - self.since % step, -(-self.until // step) * step
        if since >= until:
            raise InputError("the range of time ends before it begins: choose a later `until`")
        if (until - since) // step > MOST_POINTS:
            raise InputError(
                f"the range has more than {MOST_POINTS} {self.by}s: choose a shorter range, "
                "or by day"
            )
        return replace(self, since=since, until=until)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPoint:
    """The waits of one hour or one day."""

    at: int
    until: int
    waits: WaitSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitGroup:
    """The waits of the jobs of one partition, size class or limit class."""

    name: str
    waits: WaitSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsOverTime:
    query: WaitQuery
    """The query, with its range rounded to whole hours or days."""
    points: tuple[WaitPoint, ...]
    """Every hour or day of the range, oldest first; also hours or days without a job."""
    whole: WaitSummary
    partitions: tuple[WaitGroup, ...]
    """The partition with the most jobs first."""
    sizes: tuple[WaitGroup, ...]
    limits: tuple[WaitGroup, ...]
    behind_h: int
    """Hours of the range whose jobs are not summed up yet."""


def refresh_sums(
    store: Store,
    cluster_id: int,
    *,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.perf_counter,
) -> bool:
    """Sum what has changed, the newest day first, until the time is used up.

    Returns False if more is left to sum. Each day is a transaction of its own, so that no other
    transaction waits long.
    """
    began = clock()
    while clock() - began < budget_s:
        with store.begin() as tx:
            wait_sums.lock_cluster(tx, cluster_id)
            marked = wait_marks.find_newest_day(tx, cluster_id)
            if marked is None:
                return True
            day, hours = marked
            wait_sums.sum_day(tx, cluster_id, day, hours)
            wait_marks.clear_hours(tx, cluster_id, day, day + DAY_S)
    return False


def read_waits_over_time(
    tx: Transaction, cluster_id: int, query: WaitQuery, *, least: int = 1
) -> WaitsOverTime:
    """Return the waits. Of fewer jobs than `least`, only the number of jobs is returned."""
    query = query.round_range()
    cells = wait_sums.read_cells(tx, cluster_id, query.by.seconds, query.since, query.until)
    mask = _select_cells(cells, query)
    jobs, step = cells.jobs[mask], query.by.seconds
    bins = cells.bin[mask]

    def iter_summaries(group: NDArray[np.int64], count: int) -> Iterator[WaitSummary]:
        """Yield the summary of each of `count` groups; `group` has the number of each cell's."""
        counts = np.bincount(group * BINS + bins, weights=jobs, minlength=count * BINS)
        for row in counts.astype(np.int64).reshape(count, BINS):
            yield hide_if_few(summarize_waits(row), least)

    points = (query.until - query.since) // step
    by_point = iter_summaries((cells.at[mask] - query.since) // step, points)
    by_partition = iter_summaries(cells.partition[mask], len(cells.partitions))
    partitions = [
        WaitGroup(name=n, waits=w) for n, w in zip(cells.partitions, by_partition, strict=True)
    ]
    return WaitsOverTime(
        query=query,
        points=tuple(
            WaitPoint(at=at, until=at + step, waits=waits)
            for at, waits in zip(range(query.since, query.until, step), by_point, strict=True)
        ),
        whole=next(iter_summaries(np.zeros(len(jobs), dtype=np.int64), 1)),
        partitions=tuple(
            sorted(filter(_has_jobs, partitions), key=lambda g: (-g.waits.jobs, g.name))
        ),
        sizes=_build_groups(SIZES, iter_summaries(cells.size[mask], len(SIZES))),
        limits=_build_groups(LIMITS, iter_summaries(cells.limit[mask], len(LIMITS))),
        behind_h=wait_marks.count_marked_hours(tx, cluster_id, query.since, query.until),
    )


def hide_if_few(waits: WaitSummary, least: int) -> WaitSummary:
    """Return the number of jobs alone if they are too few."""
    return waits if waits.jobs >= least else WaitSummary(jobs=waits.jobs)


def _select_cells(cells: WaitCells, query: WaitQuery) -> NDArray[np.bool_]:
    mask = np.ones(len(cells), dtype=bool)
    if query.partition:
        number_by_name = {name: i for i, name in enumerate(cells.partitions)}
        mask &= cells.partition == number_by_name.get(query.partition, -1)
    if query.size is not None:
        mask &= cells.size == SIZES.index(query.size)
    if query.limit is not None:
        mask &= cells.limit == LIMITS.index(query.limit)
    return mask


def _build_groups(
    names: tuple[SizeClass, ...] | tuple[LimitClass, ...], waits: Iterator[WaitSummary]
) -> tuple[WaitGroup, ...]:
    groups = (WaitGroup(name=str(n), waits=w) for n, w in zip(names, waits, strict=True))
    return tuple(filter(_has_jobs, groups))


def _has_jobs(group: WaitGroup) -> bool:
    return group.waits.jobs > 0
