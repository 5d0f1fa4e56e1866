"""The arrays of one simulator: makes room in them, builds job records, and carries out moves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mirage.domain.arrays import Ints
from mirage.simulator import engine, moves
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import NONE, RECORD, get_section
from mirage.simulator.packing.allocation import (
    ArraySizes,
    build_scratch,
    build_state,
    expand_state,
    has_enough_scratch,
    register_names,
)
from mirage.simulator.packing.name_table import NameTable
from mirage.simulator.packing.packed_params import pack_params
from mirage.simulator.packing.workload import Workload
from mirage.simulator.state import fairtree
from mirage.simulator.types import Params, SimJob

_LOG_ROOM = 4096
NO_RESULTS: Ints = np.zeros((0, 3), dtype=np.int64)


class SimulatorMemory:
    """The state, site, scratch and results of one simulator (layout.py), and their sizes.

    Forks share the scratch until one of them grows. So only one of them may run at a time: use
    forks in one thread.
    """

    def __init__(self, params: Params, workload: Workload, now: int) -> None:
        self.params = params
        self.names: NameTable = workload.names
        self.site = pack_params(params, workload.images)
        room = ArraySizes().with_room_for_names(self.names)
        self.state = build_state(params, self.site, self.names, room, now)
        self.room = replace(room, events=len(get_section(self.state, layout.HEAP_AT)))
        self.work = build_scratch(params, self.site, self.names, self.room)
        self.extras = workload.extras
        self.results: Ints = np.full((len(workload), 3), NONE, dtype=np.int64)
        self._recorder = workload.recorder

    def fork(self, *, with_results: bool, reusable: Self | None = None) -> Self:
        """Return an independent copy at the cost of the live jobs, if it is without results.

        `reusable`: a fork that is not used again, whose memory the copy takes. New memory costs
        several times as much as the copy.
        """
        copy = object.__new__(type(self))
        can_reuse = reusable is not None and reusable.state.shape == self.state.shape
        state = reusable.state if reusable is not None and can_reuse else np.empty_like(self.state)
        # The log is the last section and mostly empty, so its unused part is not copied.
        used_length = self[layout.LOG] + self[layout.LOGGED]
        state[:used_length] = self.state[:used_length]
        copy.__dict__ = {**self.__dict__, "state": state}
        copy.results = self.results.copy() if with_results else NO_RESULTS
        return copy

    def __getitem__(self, scalar: int) -> int:
        """Return a scalar of the state's header."""
        return int(self.state[scalar])

    def make_room(self, missing: int) -> None:
        """Double the array that was too small. `missing`: a ROOM_ constant."""
        room = self.room.with_doubled_room(missing)
        if missing == layout.ROOM_LOG:
            room = replace(room, log=max(room.log, _LOG_ROOM, 8 * room.cells))
        self._expand_arrays(room)

    def expand_to_match(self, other: Self) -> None:
        """Expand the arrays to the room that a fork of this memory has come to need."""
        if other.room != self.room:
            self._expand_arrays(other.room)

    def _expand_arrays(self, room: ArraySizes) -> None:
        if room != self.room:
            self.state = expand_state(self.state, self.site, self.room, room)
            self.room = room
        if not has_enough_scratch(self.work, room, self.names):
            self.work = build_scratch(self.params, self.site, self.names, room)

    def ensure_room(self, *, edges: int = 0, cells: int = 0) -> None:
        """Ensure room for more dependencies (`edges`), and for more nodes in node lists
        (`cells`)."""
        while self[layout.EDGES] + edges > self.room.edges:
            self.make_room(layout.ROOM_EDGES)
        while self[layout.EVENTS] + edges + 4 > self.room.events:
            self.make_room(layout.ROOM_EVENTS)
        while self[layout.CELLS_LEFT] < cells:
            self.make_room(layout.ROOM_CELLS)

    def _ensure_instant_room(self) -> None:
        while missing := engine.check_instant_room(self.state, self.site):
            self.make_room(int(missing))

    def apply_move(self, move: Callable[..., Any], *arguments: Any) -> Any:
        """Carry out a move, after making room for it, and return its result. Passes that are due
        because of the move run at the next advance."""
        self.state[layout.LISTENING] = 1
        self._ensure_instant_room()
        while missing := engine.check_arrival_room(self.state, NONE, self.extras):
            self.make_room(int(missing))
        self.state[layout.VERSION] += 1
        return move(self.state, self.site, *arguments)

    def build_record(self, job: SimJob, job_id: int) -> Ints:
        """Build the record of a job, and enter its names into the state."""
        names, extras = self.names, list[int]()
        if (job.account, job.user) not in names.associations or job.array_id not in names.arrays:
            names = names.copy()
        record = np.array(self._recorder.build_record(job, names, extras), dtype=np.int64)
        record[layout.ID], record[layout.ROW] = job_id, NONE
        if extras:
            record[layout.EXTRA] = len(self.extras)
            self.extras = np.concatenate([self.extras, np.array(extras, dtype=np.int64)])
            self.ensure_room(edges=len(job.dependencies), cells=len(job.node_list))
        self.names = names
        self._expand_arrays(self.room.with_room_for_names(names))
        if self[layout.ASSOCIATIONS] != len(names.associations):
            register_names(self.state, self.params, names)
        return record

    def build_records(self, jobs: Sequence[SimJob]) -> Ints:
        """Build the records, int64[jobs, RECORD], of jobs without id, dependencies or node list,
        and enter their names into the state. Records are kept, and reused for equal jobs."""
        names = self.names
        new_jobs = [job for job in jobs if job not in names.records]
        if new_jobs:
            names = self.names = names.copy()
        for job in new_jobs:
            record = np.array(self._recorder.build_record(job, names, []), dtype=np.int64)
            record[layout.ROW] = NONE
            names.records[job] = record
        self._expand_arrays(self.room.with_room_for_names(names))
        if self[layout.ASSOCIATIONS] != len(names.associations):
            register_names(self.state, self.params, names)
        records = [names.records[job] for job in jobs]
        return np.stack(records) if records else np.zeros((0, RECORD), dtype=np.int64)

    def set_initial_usage(self, usage: Mapping[tuple[str, str], float], ticked_at: int) -> None:
        """Set the usage of (account, user) pairs at the tick `ticked_at` (epoch seconds), in CPU
        seconds. Call it once."""
        names = self.names.copy()
        for account, user in usage:
            names.assign_association(account, user)
        self.names = names
        self._expand_arrays(self.room.with_room_for_names(names))
        register_names(self.state, self.params, names)
        state = self.state
        usage_by_association = get_section(state, layout.FAIR_USAGE).view(np.float64)
        usage_by_account = get_section(state, layout.ACCOUNT_USAGE).view(np.float64)
        for (account, user), seconds in usage.items():
            usage_by_association[names.assign_association(account, user)] = seconds
            usage_by_account[names.accounts[account]] += seconds
        state[layout.ORIGIN] = state[layout.LAST_TICK] = ticked_at
        state[layout.TICK_AT] = ticked_at + self.params.priority_calc_period_s
        fairtree.rank_associations(state, self.site)

    def find_slot(self, job_id: int) -> int:
        """Find the slot of a pending or running job; NONE if there is none."""
        return int(moves.find_slot(self.state, job_id))

    def get_live_records(self) -> Ints:
        """Return a view of all records, int64[slots, RECORD], free slots included."""
        return get_section(self.state, layout.LIVE).reshape(-1, RECORD)

    def list_queued_slots(self) -> Ints:
        """List the slots of the queued jobs in order."""
        slots = np.empty(self[layout.QUEUED], dtype=np.int64)
        moves.fill_slots_in_order(self.state, self.site, self.work, slots)
        return slots

    def copy_for_plan(self) -> Ints:
        """Copy the state for a plan, which changes the copy. The copy has no log."""
        self._ensure_instant_room()
        log = self[layout.LOG]
        copy = self.state[:log].copy()
        copy[layout.END_OF_STATE], copy[layout.LISTENING] = log, 0
        return copy

    def plan_starts_by_slot(self, state: Ints) -> Ints:
        """Plan the starts of a backfill pass, by slot; NONE: no start is planned.

        `state`: a copy from `copy_for_plan`, which is changed.
        """
        plans = np.empty(self.room.slots, dtype=np.int64)
        moves.plan_starts(state, self.site, NO_RESULTS, self.work, plans)
        return plans
