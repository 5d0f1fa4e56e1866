"""Stores sums of waits, a row for each hour and each day, so that no page reads a year's jobs.

A row holds the counts of jobs that started in it, by partition, size class, limit class and bin of
the wait (`domain.wait_histogram`). Hours are summed from the jobs, days from the hours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, func, select

from mirage.database.jobs.job_times import build_waited_s
from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import wait_sums
from mirage.database.schema.tables import clusters, jobs
from mirage.database.schema.upsert import put_rows
from mirage.domain.arrays import Ints
from mirage.domain.snapshot import UNKNOWN
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.domain.wait_buckets import assign_limit_codes, assign_size_codes
from mirage.domain.wait_histogram import assign_bins

_CELL = np.dtype(
    [("partition", "<u2"), ("size", "u1"), ("limit", "u1"), ("bin", "u1"), ("jobs", "<u4")]
)
"""The type of a stored cell: packed, little-endian."""


@dataclass(frozen=True, slots=True)
class WaitCells:
    """Columns of equal length [n]: the number of jobs in each cell."""

    at: Ints
    """The beginning of the hour or day."""
    partition: Ints
    """Places in `partitions`."""
    size: Ints
    """Places in `wait_buckets.SIZES`."""
    limit: Ints
    """Places in `wait_buckets.LIMITS`."""
    bin: Ints
    jobs: Ints
    partitions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.at)


def lock_cluster(tx: Transaction, cluster_id: int) -> None:
    """Lock the cluster on PostgreSQL, so that nobody else merges jobs or sums waits meanwhile."""
    tx.execute(
        select(clusters.c.id).where(clusters.c.id == cluster_id).with_for_update(key_share=True)
    )


def sum_day(tx: Transaction, cluster_id: int, day: int, hours: Sequence[int]) -> None:
    """Sum these hours of a day from their jobs, and the day from its hours."""
    begin, end = min(hours), max(hours) + HOUR_S
    hour_cells = _sum_jobs(tx, cluster_id, begin, end)
    _put_cells(
        tx, cluster_id, HOUR_S, [(hour, _select_hour(hour_cells, hour)) for hour in sorted(hours)]
    )
    day_cells = read_cells(tx, cluster_id, HOUR_S, day, day + DAY_S)
    _put_cells(tx, cluster_id, DAY_S, [(day, day_cells)])


def read_cells(tx: Transaction, cluster_id: int, span_s: int, since: int, until: int) -> WaitCells:
    """Read the cells of the hours, or days, that begin in [since, until)."""
    rows = tx.execute(
        select(wait_sums.c.at, wait_sums.c.partitions, wait_sums.c.cells)
        .where(
            wait_sums.c.cluster_id == cluster_id,
            wait_sums.c.span_s == span_s,
            wait_sums.c.at >= since,
            wait_sums.c.at < until,
        )
        .order_by(wait_sums.c.at)
    ).all()
    names: dict[str, int] = {}
    cells = np.frombuffer(b"".join(row.cells for row in rows), dtype=_CELL)
    lengths = [len(row.cells) // _CELL.itemsize for row in rows]
    places = [[names.setdefault(n, len(names)) for n in row.partitions] for row in rows]
    offsets = np.cumsum([0, *map(len, places)])[:-1].astype(np.int64)
    global_place = np.array([place for row in places for place in row], dtype=np.int64)
    return WaitCells(
        at=np.repeat(np.array([row.at for row in rows], dtype=np.int64), lengths),
        partition=global_place[np.repeat(offsets, lengths) + cells["partition"]],
        size=cells["size"].astype(np.int64),
        limit=cells["limit"].astype(np.int64),
        bin=cells["bin"].astype(np.int64),
        jobs=cells["jobs"].astype(np.int64),
        partitions=tuple(names),
    )


def _sum_jobs(tx: Transaction, cluster_id: int, begin: int, end: int) -> WaitCells:
    """Sum the waits of the jobs that started in [begin, end)."""
    limit_s = func.coalesce(jobs.c.time_limit_s, UNKNOWN)
    rows = tx.execute(
        select(jobs.c.partition, jobs.c.start, build_waited_s(), jobs.c.nodes, limit_s).where(
            jobs.c.cluster_id == cluster_id, jobs.c.start >= begin, jobs.c.start < end
        )
    ).all()
    names: dict[str, int] = {}
    partition = np.array([names.setdefault(r[0], len(names)) for r in rows], dtype=np.int64)
    numbers = np.array([tuple(r)[1:] for r in rows], dtype=np.int64).reshape(-1, 4)
    start, wait_s, nodes, limit = numbers.T
    return WaitCells(
        at=start - start % HOUR_S,
        partition=partition,
        size=assign_size_codes(nodes).astype(np.int64),
        limit=assign_limit_codes(limit).astype(np.int64),
        bin=assign_bins(wait_s).astype(np.int64),
        jobs=np.ones(len(rows), dtype=np.int64),
        partitions=tuple(names),
    )


def _select_hour(cells: WaitCells, hour: int) -> WaitCells:
    is_in_hour = cells.at == hour
    return WaitCells(
        at=cells.at[is_in_hour],
        partition=cells.partition[is_in_hour],
        size=cells.size[is_in_hour],
        limit=cells.limit[is_in_hour],
        bin=cells.bin[is_in_hour],
        jobs=cells.jobs[is_in_hour],
        partitions=cells.partitions,
    )


def _put_cells(
    tx: Transaction, cluster_id: int, span_s: int, rows: Sequence[tuple[int, WaitCells]]
) -> None:
    """Store the cells of each span; a span in which no job started has no row."""
    values = []
    for at, cells in rows:
        if len(cells):
            partitions, packed = _pack_cells(cells)
            key = {"cluster_id": cluster_id, "span_s": span_s, "at": at}
            values.append(key | {"partitions": partitions, "cells": packed})
    put_rows(tx, wait_sums, values, key=["cluster_id", "span_s", "at"])
    empty = [at for at, cells in rows if not len(cells)]
    if empty:
        tx.execute(
            delete(wait_sums).where(
                wait_sums.c.cluster_id == cluster_id,
                wait_sums.c.span_s == span_s,
                wait_sums.c.at.in_(empty),
            )
        )


def _pack_cells(cells: WaitCells) -> tuple[list[str], bytes]:
    """Return the names of the partitions that occur, and the merged cells."""
    used, place = np.unique(cells.partition, return_inverse=True)
    key = ((place * 256 + cells.size) * 256 + cells.limit) * 256 + cells.bin
    keys, row = np.unique(key, return_inverse=True)
    packed: NDArray[np.void] = np.zeros(len(keys), dtype=_CELL)
    packed["partition"] = keys >> 24
    packed["size"] = (keys >> 16) & 255
    packed["limit"] = (keys >> 8) & 255
    packed["bin"] = keys & 255
    packed["jobs"] = np.bincount(row, weights=cells.jobs).astype(np.int64)
    return [cells.partitions[i] for i in used.tolist()], packed.tobytes()
