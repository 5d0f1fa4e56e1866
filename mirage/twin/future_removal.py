"""Removes the future from a simulator's present, and runs other futures from there.

In a replay the trace knows later arrivals, ends and cancellations. A forecast must not see them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.time_units import HOUR_S
from mirage.errors import ClusterRefused
from mirage.simulator import moves
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import (
    AT_ARRIVAL,
    AT_BEGIN,
    AT_END,
    AT_NODE,
    CANCEL,
    EDGE,
    EDGE_COLUMNS,
    EDGES,
    EVENTS,
    FAILS,
    HEAP_AT,
    HEAP_RANK,
    HEAP_WHAT,
    ID,
    IMAGES,
    KEY,
    LIMIT,
    LIVE,
    NONE,
    NOW,
    OWN_FIELDS,
    PHASE,
    PHASE_COMING,
    PHASE_FREE,
    PHASE_RUNNING,
    RANK_SHIFT,
    RECORD,
    ROW,
    RUN,
    RUN_SLOT,
    RUNNING,
    SITE_OVER_TIME,
    START,
    section,
)
from mirage.simulator.engine import check_instant_room
from mirage.simulator.simulator import Simulator
from mirage.simulator.state.job_lifecycle import free_slot
from mirage.simulator.types import SimJob
from mirage.twin.piecework import Piecework

_PROBE_RUNS_S = 1
_PIECE_S = 6 * HOUR_S
"""Simulated seconds of one piece: a tenth of a second of work on a cluster of thousands of
jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Future submissions: columns of equal length, ascending by `at` (epoch seconds)."""

    at: Ints
    kind: Ints
    """The place of each submission's kind among the kinds of `Present`."""
    run_s: Ints
    cancel_at: Ints
    """The instant at which the user cancels the waiting job; NONE: never."""


def join_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    """Append the arrivals in the order of `parts`."""
    if len(parts) == 1:
        return parts[0]
    columns = (np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Arrivals))
    return Arrivals(**dict(zip((f.name for f in fields(Arrivals)), columns, strict=True)))


class Present:
    """The present of a simulator without its future. Each simulated future is a fork of it.

    Removed: arrivals, cancellations of pending jobs, the ends of jobs, outages of nodes. Kept,
    since squeue and the reservations show them: running jobs and their nodes, waiting jobs, and
    begin times.
    """

    def __init__(self, simulator: Simulator, kinds: Sequence[SimJob] = ()) -> None:
        """`kinds`: the jobs that futures may submit; their instants and run times do not count,
        and they have no ids, dependencies or node lists."""
        self._base = simulator.fork()
        self._probes: list[int] = []
        """The slots of the probes, which keep their records until they start."""
        self._spent_future: Simulator | None = None
        """The last simulated future, whose memory the next one takes."""
        arena = self._base.arena
        self._images = arena.build_records(kinds)
        self._arrays = self._images[:, layout.ARRAY].copy()
        self._images[:, OWN_FIELDS] = 0
        arena.site = _replace_images(arena.site, self._images)
        arena.apply_move(forget_future)

    @property
    def now(self) -> int:
        """Return the instant of the present, epoch seconds."""
        return self._base.now

    @property
    def users(self) -> list[str]:
        """List the users by number of their association (layout.ASSOCIATION)."""
        return [user for _, user in self._base.arena.names.associations]

    @property
    def live(self) -> Ints:
        """Return int64[slots, RECORD]: a view of all records of layout.py, with free slots."""
        return self._base.arena.get_live_records()

    def fork(self) -> "Present":
        """Return the same present, to which other probes may be added."""
        copy = object.__new__(Present)
        copy.__dict__ = {**self.__dict__, "_base": self._base.fork(), "_spent_future": None}
        copy._probes = list(self._probes)
        return copy

    def add_probe(self, job: SimJob, priority: int | None = None) -> None:
        """Submit a job as a probe, which is eligible now (`turn_into_probe`)."""
        self.turn_into_probe(self._base.inject(job), priority)

    def turn_into_probe(self, job_id: int, priority: int | None = None) -> None:
        """Make a pending job a probe: eligible now, whatever kept it waiting.

        A probe waits like any job, and ends a second after its start: it takes nothing from the
        others. Jobs that depend on it wait for ever. `priority`: the probe's priority as squeue
        prints it, if the simulator cannot know it. Raises ClusterRefused if the job does not wait.
        """
        arena = self._base.arena
        slot = arena.find_slot(job_id)
        if slot == NONE or arena.get_live_records()[slot, PHASE] == PHASE_RUNNING:
            raise ClusterRefused(f"Job is no longer pending execution: {job_id}")
        arena.apply_move(moves.clear_restrictions, slot)
        if priority is not None:
            arena.apply_move(moves.restore_pending, slot, priority, NONE)
        arena.apply_move(detach_dependents, slot)
        self._probes.append(slot)

    def simulate_starts(
        self,
        run_s: Ints,
        spans: Iterable[tuple[int, Arrivals]],
        awaited_probes: Sequence[int] | None = None,
    ) -> Piecework[list[int | None]]:
        """Simulate one future. Return the starts of the awaited probes, epoch seconds; None: not
        started by the end of the last span.

        In this future live jobs run for `run_s` seconds in all (int64[slots]). `spans`: an instant,
        and all arrivals up to it. The next span is asked for only if an awaited probe has not
        started. `awaited_probes`: numbers of probes, in the order in which they were added; None:
        all.
        """
        future = self._spent_future = self._base.fork(reusable=self._spent_future)
        future.arena.state[layout.CURSOR] = 0
        while lacking := int(check_instant_room(future.arena.state, future.arena.site)):
            future.arena.make_room(lacking)
        live = future.arena.get_live_records()
        slots = (
            self._probes if awaited_probes is None else [self._probes[i] for i in awaited_probes]
        )
        ids = live[slots, ID].tolist()
        write_run_times(future.arena.state, future.arena.site, run_s)
        live[self._probes, RUN] = _PROBE_RUNS_S
        starts: list[int | None] = [None] * len(ids)
        for until, arrivals in spans:
            future.workload = future.workload.with_feed(self._build_feed(arrivals))
            # The rows of the feed come first: the simulator numbers arrivals so.
            rows = len(arrivals.at) + np.arange(len(ids))
            size = (len(arrivals.at) + len(ids), 3)
            results = future.arena.results = np.full(size, NONE, dtype=np.int64)
            waiting = [i for i, start in enumerate(starts) if start is None]
            future.arena.get_live_records()[[slots[i] for i in waiting], ROW] = rows[waiting]
            for i in waiting:
                while results[rows[i], 0] == NONE and future.now < until:
                    future.run_until_started(ids[i], min(until, future.now + _PIECE_S))
                    yield
            for i in waiting:
                if results[rows[i], 0] != NONE:
                    starts[i] = int(results[rows[i], 0])
            if None not in starts:
                break
        # Later futures start with the room that this one needed.
        self._base.arena.expand_to_match(future.arena)
        return starts

    def _build_feed(self, arrivals: Arrivals) -> Ints:
        columns: dict[int, Any] = {
            ID: self._base.next_id + np.arange(len(arrivals.at)),
            layout.SUBMIT: arrivals.at,
            RUN: arrivals.run_s,
            layout.BEGIN: 0,
            CANCEL: arrivals.cancel_at,
            layout.ARRAY: self._arrays[arrivals.kind],
            layout.EXTRA: NONE,
        }
        feed = np.empty((len(arrivals.at), 1 + len(OWN_FIELDS)), dtype=np.int64)
        feed[:, layout.FEED_IMAGE] = arrivals.kind
        for i, field in enumerate(OWN_FIELDS):
            feed[:, 1 + i] = columns[field]
        return feed


def _replace_images(site: Ints, images: Ints) -> Ints:
    """Return the site with other records of submissions, which are its last section."""
    new = np.concatenate([site[: site[IMAGES]], images.reshape(-1)])
    new[layout.END_OF_SITE] = len(new)
    return new


@kernel
def detach_dependents(state: Ints, _site: Ints, slot: int) -> None:
    """Cut the edges from this job: nothing that it does meets a dependency any more."""
    edges = section(state, EDGE)
    for k in range(state[EDGES]):
        if edges[k * EDGE_COLUMNS + 1] == slot:
            edges[k * EDGE_COLUMNS + 1] = NONE


@kernel
def forget_future(state: Ints, site: Ints) -> None:
    """Remove future events, and from every live record how and when the job ends."""
    live = section(state, LIVE)
    times, ranks, subjects = (
        section(state, HEAP_AT),
        section(state, HEAP_RANK),
        section(state, HEAP_WHAT),
    )
    events = state[EVENTS]
    state[EVENTS] = 0
    for i in range(events):
        # A push moves nothing that has not been read yet.
        at, rank, subject = times[i], ranks[i], subjects[i]
        kind = rank >> RANK_SHIFT
        if kind == AT_BEGIN or (kind == AT_NODE and subject == NONE):
            push_event(state, at, rank, subject)
        elif kind == AT_ARRIVAL and live[subject * RECORD + PHASE] == PHASE_COMING:
            free_slot(state, subject)
    for at in range(0, live.size, RECORD):
        if live[at + PHASE] != PHASE_FREE:
            live[at + FAILS], live[at + CANCEL], live[at + ROW] = 0, NONE, NONE
            live[at + RUN] = live[at + LIMIT] + site[SITE_OVER_TIME]


@kernel
def write_run_times(state: Ints, site: Ints, run_s: Ints) -> None:
    """Let every live job run for `run_s[slot]` seconds in all, a running job until after now."""
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    for slot in range(live.size // RECORD):
        if live[slot * RECORD + PHASE] != PHASE_FREE and slot < run_s.size:
            live[slot * RECORD + RUN] = run_s[slot]
    for i in range(state[RUNNING]):
        at = slots[i] * RECORD
        length = min(live[at + RUN], live[at + LIMIT] + site[SITE_OVER_TIME])
        end = max(live[at + START] + length, state[NOW] + 1)
        live[at + KEY] = end
        push_event(state, end, (AT_END << RANK_SHIFT) | live[at + ID], slots[i])
