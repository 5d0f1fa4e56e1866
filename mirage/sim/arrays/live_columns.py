"""The live jobs as columns, read from the state. Observations are computed from them."""

from dataclasses import dataclass

import numpy as np

from mirage.domain.arrays import Ints
from mirage.sim.arrays import layout
from mirage.sim.arrays.layout import RECORD, get_section


@dataclass(frozen=True, slots=True)
class LiveColumns:
    """One row a job, one column a field of layout.py's record (`ID`, `NODES`, `LIMIT`, ...).

    int64[jobs, RECORD]. Users are association numbers (`ASSOCIATION`), partitions their place in
    Params. CPUS and GPUS are per node.
    """

    queued: Ints
    """Eligible pending jobs, in priority order."""
    running: Ints
    """The running jobs, ordered by their ends by the time limit."""
    waiting: Ints
    """Pending jobs that are not eligible, by slot."""


def list_queue_places(state: Ints) -> Ints:
    """List where jobs stand in the queue's columns: the old, then the young.

    priority_queue.py tells old from young.
    """
    k, old = np.arange(state[layout.QUEUED]), state[layout.SATURATED]
    found: Ints = k + np.where(k < old, state[layout.OLD_FIRST], state[layout.YOUNG_FIRST] - old)
    return found


def copy_live_columns(state: Ints, queued: Ints) -> LiveColumns:
    """A copy of the live records; `queued`: the slots of the queue in order."""
    live = get_section(state, layout.LIVE).reshape(-1, RECORD)
    running = get_section(state, layout.RUN_SLOT)[: state[layout.RUNNING]]
    waiting = np.flatnonzero(live[:, layout.PHASE] == layout.WAITING)
    return LiveColumns(live[queued], live[running], live[waiting])
