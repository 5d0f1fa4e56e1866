"""The future events of a simulator: a binary heap ordered by (instant, rank)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import EVENTS, HEAP_AT, HEAP_RANK, HEAP_WHAT, section


@kernel
def push_event(state: Ints, at: int, rank: int, what: int) -> None:
    """Add an event; there is room for it (allocation.py)."""
    times, ranks, whats = (
        section(state, HEAP_AT),
        section(state, HEAP_RANK),
        section(state, HEAP_WHAT),
    )
    i = state[EVENTS]
    state[EVENTS] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if times[up] < at or (times[up] == at and ranks[up] <= rank):
            break
        times[i], ranks[i], whats[i] = times[up], ranks[up], whats[up]
        i = up
    times[i], ranks[i], whats[i] = at, rank, what


@kernel
def pop_event(state: Ints) -> None:
    """Take the first event away; it is read from place 0 before."""
    times, ranks, whats = (
        section(state, HEAP_AT),
        section(state, HEAP_RANK),
        section(state, HEAP_WHAT),
    )
    n = state[EVENTS] - 1
    state[EVENTS] = n
    at, rank, what = times[n], ranks[n], whats[n]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        right = down + 1
        if right < n and (
            times[right] < times[down]
            or (times[right] == times[down] and ranks[right] < ranks[down])
        ):
            down = right
        if at < times[down] or (at == times[down] and rank <= ranks[down]):
            break
        times[i], ranks[i], whats[i] = times[down], ranks[down], whats[down]
        i = down
    times[i], ranks[i], whats[i] = at, rank, what
