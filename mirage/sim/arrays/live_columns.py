"""Reads the live jobs from the state as columns. Observations are computed from these columns."""

from dataclasses import dataclass

import numpy as np

from mirage.domain.arrays import Ints
from mirage.sim.arrays import layout
from mirage.sim.arrays.layout import RECORD, get_section


@dataclass(frozen=True, slots=True)
class LiveColumns:
    """The live jobs: one row for each job, one column for each field of layout.py's record (`ID`,
    `NODES`, `LIMIT`, ...).

    int64[jobs, RECORD]. Users are association numbers (`ASSOCIATION`), partitions are places in
    `Params.partitions`. CPUS and GPUS are counted per node.
    """

    queued: Ints
    """Eligible pending jobs, in priority order."""
    running: Ints
    """The running jobs, ordered by their ends by the time limit."""
    waiting: Ints
    """Pending jobs that are not eligible, by slot."""


def list_queue_places(state: Ints) -> Ints:
    """List the places of jobs in the queue's columns: first the old jobs, then the young ones.

    priority_queue.py defines old and young.
    """
    k, old = np.arange(state[layout.QUEUED]), state[layout.SATURATED]
    found: Ints = k + np.where(k < old, state[layout.OLD_FIRST], state[layout.YOUNG_FIRST] - old)
    return found


def copy_live_columns(state: Ints, queued: Ints) -> LiveColumns:
    """Copy the live records. `queued`: the slots of the queue's jobs, in order."""
    live = get_section(state, layout.LIVE).reshape(-1, RECORD)
    running = get_section(state, layout.RUN_SLOT)[: state[layout.RUNNING]]
    waiting = np.flatnonzero(live[:, layout.PHASE] == layout.WAITING)
    return LiveColumns(live[queued], live[running], live[waiting])
