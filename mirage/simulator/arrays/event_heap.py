"""The future events of a simulator: a binary heap ordered by (instant, rank)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import EVENTS, HEAP_AT, HEAP_RANK, HEAP_WHAT, section


@kernel
def push_event(state: Ints, at: int, rank: int, subject: int) -> None:
    """Add an event. The caller must have made sure that there is room (engine.py)."""
    times, ranks, subjects = (
        section(state, HEAP_AT),
        section(state, HEAP_RANK),
        section(state, HEAP_WHAT),
    )
    i = state[EVENTS]
    state[EVENTS] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if times[parent] < at or (times[parent] == at and ranks[parent] <= rank):
            break
        times[i], ranks[i], subjects[i] = times[parent], ranks[parent], subjects[parent]
        i = parent
    times[i], ranks[i], subjects[i] = at, rank, subject


@kernel
def pop_event(state: Ints) -> None:
    """Remove the first event. The caller reads it before, at place 0 of the three sections."""
    times, ranks, subjects = (
        section(state, HEAP_AT),
        section(state, HEAP_RANK),
        section(state, HEAP_WHAT),
    )
    n = state[EVENTS] - 1
    state[EVENTS] = n
    at, rank, subject = times[n], ranks[n], subjects[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        right = child + 1
        if right < n and (
            times[right] < times[child]
            or (times[right] == times[child] and ranks[right] < ranks[child])
        ):
            child = right
        if at < times[child] or (at == times[child] and rank <= ranks[child]):
            break
        times[i], ranks[i], subjects[i] = times[child], ranks[child], subjects[child]
        i = child
    times[i], ranks[i], subjects[i] = at, rank, subject
