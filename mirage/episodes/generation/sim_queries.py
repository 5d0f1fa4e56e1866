"""Two quick looks at a simulated queue.

`Simulator.get_live_columns` would copy every live job's record.
"""

import numpy as np
from numpy.typing import NDArray

from mirage.features.observation.sim_columns import gather_capacity
from mirage.sim.arrays import layout
from mirage.sim.arrays.layout import get_section
from mirage.sim.arrays.live_columns import list_queue_places
from mirage.sim.simulator import Simulator


def list_rivals(sim: Simulator, nodes: int, partition: int) -> NDArray[np.int64]:
    """Ids of the partition's eligible pending jobs that ask for at most `nodes`."""
    state = sim.arena.state
    live = get_section(state, layout.LIVE).reshape(-1, layout.RECORD)
    slots = get_section(state, layout.QUEUE_SLOT)[list_queue_places(state)]
    ours = (live[slots, layout.NODES] <= nodes) & (live[slots, layout.PARTITION] == partition)
    ids: NDArray[np.int64] = live[slots[ours], layout.ID]
    return ids


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
