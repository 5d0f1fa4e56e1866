"""Where a queued job stands in the queue's columns."""

from mirage.domain.arrays import Ints
from mirage.sim.arrays.jit import inline_kernel
from mirage.sim.arrays.layout import OLD_FIRST, SATURATED, YOUNG_FIRST


@inline_kernel
def get_queue_place(state: Ints, k: int) -> int:
    """The place of the k-th of all that are queued, the old before the young."""
    if k < state[SATURATED]:
        return state[OLD_FIRST] + k
    return state[YOUNG_FIRST] + k - state[SATURATED]
