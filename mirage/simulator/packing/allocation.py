"""Allocates the state and the scratch, and enlarges them."""

from dataclasses import dataclass, replace

import numpy as np

from mirage.domain.arrays import Ints
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.layout import FAR, NONE, RECORD, get_section
from mirage.simulator.packing.name_table import NameTable
from mirage.simulator.packing.packed_params import build_bitmap, pack_sections
from mirage.simulator.types import Outage, Params

OUTAGES = {Outage.RESUME: layout.UP, Outage.DRAIN: layout.DRAINED, Outage.DOWN: layout.DOWN}
_TABLES_MOST = 1 << 21
"""The most integers that the tables of planning by name may have: 16 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySizes:
    """How many entries each kind of array of a state has room for."""

    slots: int = 64
    """Pending and running jobs."""
    events: int = 256
    edges: int = 8
    cells: int = 64
    """Nodes given away or asked for by name."""
    log: int = 0
    users: int = 8
    """User and QOS pairs."""
    associations: int = 8
    accounts: int = 4
    arrays: int = 4

    def with_room_for_names(self, names: NameTable) -> "ArraySizes":
        """Return sizes with room for all users, associations, accounts and arrays in `names`."""
        return replace(
            self,
            users=_compute_size(self.users, len(names.use_rows)),
            associations=_compute_size(self.associations, len(names.associations)),
            accounts=_compute_size(self.accounts, len(names.accounts)),
            arrays=_compute_size(self.arrays, len(names.arrays)),
        )

    def with_doubled_room(self, missing: int) -> "ArraySizes":
        """Return sizes with twice the room for one kind of entry. `missing`: a ROOM_ constant."""
        field = {
            layout.ROOM_SLOTS: "slots",
            layout.ROOM_EVENTS: "events",
            layout.ROOM_EDGES: "edges",
            layout.ROOM_CELLS: "cells",
            layout.ROOM_LOG: "log",
        }[missing]
        return replace(self, **{field: max(64, 2 * getattr(self, field))})


def _compute_size(size: int, needed: int) -> int:
    return size if size >= needed else needed + needed // 4 + 1


def _compute_lengths(room: ArraySizes, nodes: int, words: int) -> dict[int, int]:
    slots = room.slots
    # Half as much again, since the queue's two parts move within its columns (priority_queue.py).
    queue = slots + slots // 2
    return {
        layout.LIVE: slots * RECORD,
        layout.QUEUE_KEY: queue,
        layout.QUEUE_ID: queue,
        layout.QUEUE_SLOT: queue,
        layout.QUEUE_NODES: queue,
        layout.QUEUE_LIMIT: queue,
        layout.QUEUE_SHAPE: queue,
        layout.QUEUE_MARK: queue,
        layout.QUEUE_SINCE: queue,
        layout.RUN_END: slots,
        layout.RUN_SLOT: slots,
        layout.HEAP_AT: room.events,
        layout.HEAP_RANK: room.events,
        layout.HEAP_WHAT: room.events,
        layout.EDGE: room.edges * layout.EDGE_COLUMNS,
        layout.CELL_NODE: room.cells,
        layout.CELL_NEXT: room.cells,
        layout.NODE_STATE: nodes,
        layout.NODE_JOBS: nodes,
        layout.NODE_CPUS: nodes,
        layout.NODE_MEMORY: nodes,
        layout.NODE_GPUS: nodes,
        layout.IDLE_BITS: words,
        layout.UP_BITS: words,
        layout.USE: room.users * layout.USE_COLUMNS,
        layout.ARRAY_USE: room.arrays,
        layout.FAIR_VALUE: room.associations,
        layout.FAIR_RAW: room.associations,
        layout.FAIR_USAGE: room.associations,
        layout.FAIR_ACCOUNT: room.associations,
        layout.FAIR_ORDER: room.associations,
        layout.ACCOUNT_RAW: room.accounts,
        layout.ACCOUNT_USAGE: room.accounts,
        layout.ACCOUNT_SHARES: room.accounts,
        layout.FAIR_LEVEL: room.associations,
        layout.FAIR_RANK: room.associations,
        layout.ACCOUNT_LEVEL: room.accounts,
        layout.LOG: room.log,
    }


def _build_blank_state(room: ArraySizes, nodes: int, words: int) -> Ints:
    header = np.zeros(layout.HEADER, dtype=np.int64)
    lengths = _compute_lengths(room, nodes, words)
    parts = [
        np.zeros(lengths[section_number], dtype=np.int64) for section_number in sorted(lengths)
    ]
    return pack_sections(header, parts, layout.LIVE)


def build_state(params: Params, site: Ints, names: NameTable, room: ArraySizes, now: int) -> Ints:
    """Build the state of an empty cluster at `now`, with the node events and reservations that are
    still to come."""
    words = int(site[layout.SITE_WORDS])
    room = replace(
        room.with_room_for_names(names), events=max(room.events, 4 * _count_known_events(params))
    )
    state = _build_blank_state(room, params.nodes, words)
    state[layout.NOW] = state[layout.ORIGIN] = state[layout.LAST_TICK] = now
    for scalar in (layout.FULL_AT, layout.BACKFILL_AT, layout.SATURATES_AT):
        state[scalar] = FAR
    state[layout.LAST_BACKFILL] = -FAR
    state[layout.LEAST_VALUE] = FAR
    state[layout.WATCHED] = state[layout.WATCHED_START] = NONE
    period = params.priority_calc_period_s
    state[layout.TICK_AT] = -(-now // period) * period
    state[layout.IDLE] = params.nodes
    state[layout.OLD_FIRST] = state[layout.YOUNG_FIRST] = (
        len(get_section(state, layout.QUEUE_KEY)) // 2
    )
    for section_number, capacity in (
        (layout.NODE_CPUS, layout.CAPACITY_CPUS),
        (layout.NODE_MEMORY, layout.CAPACITY_MEMORY),
        (layout.NODE_GPUS, layout.CAPACITY_GPUS),
    ):
        get_section(state, section_number)[:] = get_section(site, capacity)
    for section_number in (layout.IDLE_BITS, layout.UP_BITS):
        get_section(state, section_number)[:] = build_bitmap(range(params.nodes), words)
    _link_free_slots(state, 0)
    _link_free_cells(state, 0)
    register_names(state, params, names)
    _push_known_events(state, params, now)
    return state


def _count_known_events(params: Params) -> int:
    return len(params.node_events) + 2 * len(params.reservations) + 1


def _push_known_events(state: Ints, params: Params, now: int) -> None:
    """Push the node events, and the starts and ends of reservations. Earlier node events count at
    `now`.

    If several events change one node at one instant, the last one counts.
    """
    last_events = {
        (max(e.at, now), e.node): e for e in sorted(params.node_events, key=lambda e: e.at)
    }
    for (at, node), event in last_events.items():
        push_event(state, at, (layout.AT_NODE << layout.RANK_SHIFT) | node, OUTAGES[event.outage])
    last_rank = (layout.AT_NODE << layout.RANK_SHIFT) | params.nodes
    for reservation in params.reservations:
        for at in (reservation.start, reservation.end):
            if at >= now:
                push_event(state, at, last_rank, NONE)


def _link_free_slots(state: Ints, first: int) -> None:
    """Add the slots from `first` on to the list of free slots, at its head."""
    live = get_section(state, layout.LIVE).reshape(-1, RECORD)
    _link_free_entries(live[:, layout.NEXT_FREE], first, state, layout.SLOT_FREE)
    live[first:, layout.ID] = NONE


def _link_free_cells(state: Ints, first: int) -> None:
    nexts = get_section(state, layout.CELL_NEXT)
    state[layout.CELLS_LEFT] += len(nexts) - first
    _link_free_entries(nexts, first, state, layout.CELL_FREE)


def _link_free_entries(nexts: Ints, first: int, state: Ints, head: int) -> None:
    old_head = state[head] if first else NONE
    nexts[first:] = np.arange(first + 1, len(nexts) + 1)
    nexts[-1] = old_head
    state[head] = first


def register_names(state: Ints, params: Params, names: NameTable) -> None:
    """Enter the associations and accounts that the state does not know yet."""
    accounts = get_section(state, layout.FAIR_ACCOUNT)
    values, order = get_section(state, layout.FAIR_VALUE), get_section(state, layout.FAIR_ORDER)
    ranks = get_section(state, layout.FAIR_RANK)
    known_count = int(state[layout.ASSOCIATIONS])
    for (account, _), a in list(names.associations.items())[known_count:]:
        accounts[a] = names.accounts[account]
        order[a] = a
        values[a] = params.priority_weight_fairshare << layout.FRACTION_BITS
        ranks[a] = NONE
    state[layout.ASSOCIATIONS] = len(names.associations)
    shares = get_section(state, layout.ACCOUNT_SHARES)
    shares[shares == 0] = 1
    for i, (_, n) in enumerate(params.shares):
        shares[i] = n


def expand_state(state: Ints, site: Ints, old_room: ArraySizes, room: ArraySizes) -> Ints:
    """Copy the state into a new one with more room."""
    nodes, words = int(site[layout.SITE_NODES]), int(site[layout.SITE_WORDS])
    new_state = _build_blank_state(room, nodes, words)
    new_state[: layout.SCALARS] = state[: layout.SCALARS]
    for section_number in _compute_lengths(room, nodes, words):
        old_values = get_section(state, section_number)
        get_section(new_state, section_number)[: len(old_values)] = old_values
    if room.slots > old_room.slots:
        _link_free_slots(new_state, old_room.slots)
    if room.cells > old_room.cells:
        _link_free_cells(new_state, old_room.cells)
    return new_state


def build_scratch(params: Params, site: Ints, names: NameTable, room: ArraySizes) -> Ints:
    """Build the scratch for passes over a state with that room."""
    words = int(site[layout.SITE_WORDS])
    tests = min(params.bf_max_job_test, room.slots) + 1
    groups = room.slots + 2
    tables = max(4, min(len(names.kinds) + 8, _TABLES_MOST // (groups * words)))
    maps = 2 * tests + 2 * len(params.reservations) + 5
    shapes, users = _add_room(len(names.shapes)), _add_room(len(names.associations))
    kinds, forms = _add_room(len(names.kinds)), _add_room(len(names.forms))
    lengths = {
        layout.CHOSEN: words,
        layout.USABLE: words,
        layout.FITTING: words,
        layout.WANTED: words,
        layout.SPARE: words,
        layout.MEMO_STAMP: shapes,
        layout.MEMO: shapes,
        layout.TESTS_STAMP: users,
        layout.TESTS: users,
        layout.CLOSED: len(params.partitions),
        layout.TIMES: room.slots + tests + 2,
        layout.FREE: room.slots + tests + 2,
        layout.REACH: params.nodes + 1,
        layout.GROUP_END: groups,
        layout.GROUP_LAST: groups,
        layout.THEN_JOBS: params.nodes,
        layout.THEN_CPUS: params.nodes,
        layout.THEN_MEMORY: params.nodes,
        layout.THEN_GPUS: params.nodes,
        layout.KIND_STAMP: kinds,
        layout.KIND_TABLE: kinds,
        layout.TABLE: tables * groups * words,
        layout.MAP_AT: maps,
        layout.MAP_GAINS: maps,
        layout.MAP_BITS: maps * words,
        layout.READY: len(params.partitions) * words,
        layout.KIND_WHOLE: kinds,
        layout.GROUP_PIECE: groups + 1,
        layout.PIECE_WORD: room.cells,
        layout.PIECE_BITS: room.cells,
        layout.PLANNED_STAMP: room.arrays,
        layout.PLANNED: room.arrays,
        layout.HOPELESS_STAMP: forms,
        layout.HOPELESS: forms,
    }
    header = np.zeros(layout.SCRATCH_HEADER, dtype=np.int64)
    header[layout.TABLES] = tables
    parts = [
        np.zeros(lengths[section_number], dtype=np.int64) for section_number in sorted(lengths)
    ]
    return pack_sections(header, parts, layout.CHOSEN)


def _add_room(names: int) -> int:
    """Return a size with room for later names: a queue brings thousands, one after the other."""
    return names + names // 4 + 8


def has_enough_scratch(work: Ints, room: ArraySizes, names: NameTable) -> bool:
    """Return whether the scratch is as large as this state and these names need."""
    return (
        len(get_section(work, layout.GROUP_END)) >= room.slots + 2
        and len(get_section(work, layout.PIECE_BITS)) >= room.cells
        and len(get_section(work, layout.MEMO)) >= len(names.shapes)
        and len(get_section(work, layout.TESTS)) >= len(names.associations)
        and len(get_section(work, layout.KIND_TABLE)) >= len(names.kinds)
        and len(get_section(work, layout.HOPELESS)) >= len(names.forms)
        and len(get_section(work, layout.PLANNED)) >= len(names.arrays)
    )
