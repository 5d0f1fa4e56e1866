"""One live hand-over as a row of integers, and the moves of its standby as kernels."""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.episodes.generation.replay_fork import ReplayFork
from mirage.learn.environment.protocols import PositionAction
from mirage.sim import moves
from mirage.sim.arrays.jit import expand_inline, kernel
from mirage.sim.arrays.layout import (
    CELLS_LEFT,
    EDGE,
    EDGE_COLUMNS,
    EDGES,
    NONE,
    NOW,
    ON_END,
    ROOM_CELLS,
    ROOM_EDGES,
    SHORT,
    VERSION,
    WATCHED_START,
    section,
)
from mirage.sim.engine import advance_until, check_instant_room

SLOT: Final = 0
"""Of the standby, in the state."""
BEGINS: Final = 1
ENDS: Final = 2
"""The predecessor's run, epoch seconds."""
AT_MOST: Final = 3
"""No start is waited for any longer."""
POSITION: Final = 4
TARGET: Final = 5
"""Where the step under way goes to; NONE: no step is."""
STARTED: Final = 6
"""The standby's start; NONE: it has not."""
KIND: Final = 7
PREDECESSOR: Final = 8
DELAY: Final = 9
"""The dependency: a kind, the predecessor's job id and a delay, which is none."""
NODES: Final = 10
"""How many nodes the predecessor has; their numbers follow, descending."""
NODE_LIST: Final = 11

Machine = tuple[Ints, Ints, Ints, Ints]
"""Site, feed, extras and results of a simulator: what all its forks share."""

_HELD, _FREE, _PINNED = (int(p) for p in PositionAction)


def pack_handover(world: ReplayFork, slot: int, node_list: tuple[int, ...]) -> list[int]:
    """The integers of a hand-over at its start; `slot`: the standby's."""
    run = [world.start, world.end, world.at_most]
    dependency = [ON_END, world.predecessor, 0]
    nodes = sorted(node_list, reverse=True)
    return [slot, *run, _HELD, NONE, NONE, *dependency, len(nodes), *nodes]


@kernel
def find_move_shortage(state: Ints, site: Ints, hand: Ints) -> int:
    """Return the part of the state that may lack room for a move of the standby.

    A ROOM_ constant; 0: there is enough.
    """
    if (state[EDGES] + 1) * EDGE_COLUMNS > section(state, EDGE).size:
        return ROOM_EDGES
    if state[CELLS_LEFT] < hand[NODES]:
        return ROOM_CELLS
    return check_instant_room(state, site)


@kernel
def move_standby(state: Ints, site: Ints, hand: Ints, position: int) -> None:
    """Move the standby, for which there is room."""
    before = hand[POSITION]
    if position == before:
        return
    slot = hand[SLOT]
    state[VERSION] += 1
    if position == _PINNED or before == _PINNED:  # noqa: PLR1714 - a kernel makes no tuples
        n = hand[NODES] if position == _PINNED else 0
        moves.set_node_list(state, site, slot, hand[NODE_LIST : NODE_LIST + n])
    if position == _HELD or before == _HELD:  # noqa: PLR1714
        n = 3 if position == _HELD else 0
        moves.set_dependencies(state, site, slot, hand[KIND : KIND + n], False)
    hand[POSITION] = position


@expand_inline
def step_handover(
    state: Ints, machine: Machine, work: Ints, hand: Ints, action: int, step_s: int
) -> int:
    """One hand-over to its next instant, or to its standby's start; a ROOM_ constant or 0.

    `machine`: site, feed, extras and results. Where there is no room the caller makes it and
    calls again; nothing is lost. At the predecessor's end the standby is free and waited for.
    """
    site, feed, extras, results = machine
    if hand[TARGET] == NONE:
        short = find_move_shortage(state, site, hand)
        if short:
            return short
        last = state[NOW] >= hand[ENDS]
        move_standby(state, site, hand, _FREE if last else action)
        hand[TARGET] = hand[AT_MOST] if last else min(state[NOW] + step_s, hand[ENDS])
    advance_until(state, site, feed, extras, results, work, hand[TARGET], False)
    if state[SHORT]:
        return int(state[SHORT])
    hand[STARTED] = state[WATCHED_START]
    if hand[STARTED] == NONE and hand[TARGET] == hand[AT_MOST]:
        # Not to start at all counts as starting then: no reward is left open.
        hand[STARTED] = hand[AT_MOST]
    hand[TARGET] = NONE
    return 0
