"""Reads values off a simulator for tests."""

import numpy as np

from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import get_section
from mirage.simulator.simulator import Simulator


def list_pending_ids(sim: Simulator) -> list[int]:
    """List the ids of the eligible pending jobs in priority order."""
    live = sim.arena.get_live_records()
    return [int(i) for i in live[sim.arena.list_queued_slots(), layout.ID]]


def list_free_nodes(sim: Simulator) -> tuple[int, ...]:
    """List the numbers of the nodes that are up and have no job."""
    jobs = get_section(sim.arena.state, layout.NODE_JOBS)
    states = get_section(sim.arena.state, layout.NODE_STATE)
    return tuple(int(n) for n in np.flatnonzero((jobs == 0) & (states == layout.UP)))
