"""Fast queries of a simulated queue: they read its arrays and copy no job's record."""

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.observation.sim_columns import gather_capacity
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import get_section
from mirage.simulator.simulator import Simulator


def list_rivals(sim: Simulator, nodes: int, partition: int) -> NDArray[np.int64]:
    """List the ids of the partition's eligible pending jobs that ask for at most `nodes`."""
    state = sim.arena.state
    live = get_section(state, layout.LIVE).reshape(-1, layout.RECORD)
    slots = get_section(state, layout.QUEUE_SLOT)[_list_queue_places(state)]
    is_rival = (live[slots, layout.NODES] <= nodes) & (live[slots, layout.PARTITION] == partition)
    rival_ids: NDArray[np.int64] = live[slots[is_rival], layout.ID]
    return rival_ids


def _list_queue_places(state: Ints) -> Ints:
    """List the places of jobs in the queue's columns: first the old jobs, then the young ones.

    priority_queue.py defines old and young.
    """
    k, old_count = np.arange(state[layout.QUEUED]), state[layout.SATURATED]
    places: Ints = k + np.where(
        k < old_count, state[layout.OLD_FIRST], state[layout.YOUNG_FIRST] - old_count
    )
    return places


def count_free_nodes(sim: Simulator, partition: int) -> int:
    """Count the nodes of the partition that are up and have no job."""
    if not sim.params.partitions[partition].nodes:
        return sim.count_idle_nodes()
    return int(gather_capacity(sim.arena.state, sim.arena.site, partition)[2])


def map_eligible_times(sim: Simulator) -> dict[int, int]:
    """Map the id of each running job to the instant at which it became eligible."""
    state = sim.arena.state
    live = get_section(state, layout.LIVE).reshape(-1, layout.RECORD)
    slots = get_section(state, layout.RUN_SLOT)[: state[layout.RUNNING]]
    ids, since = live[slots, layout.ID].tolist(), live[slots, layout.ELIGIBLE].tolist()
    return dict(zip(ids, since, strict=True))
