"""Slurm's two scheduling passes: they read the state and say who starts on which nodes."""

from collections.abc import Sequence
from typing import Protocol

from mirage.sim.backfill import Profile, nothing_fits_now
from mirage.sim.nodes import choose
from mirage.sim.types import Entry, Params, Record

_PLACES_BETWEEN_CHECKS = 24
"""How many jobs are planned before asking again whether anybody could still start now."""


class State(Protocol):
    """What a pass may look at."""

    params: Params
    now: int
    records: dict[int, Record]
    running: list[Entry]
    free_nodes: int
    running_per_user: dict[str, int]
    pins: dict[int, int]

    def order(self) -> Sequence[Entry]: ...


class _Users:
    """MaxJobsPU during one pass: who is at the limit, those who start in it included."""

    def __init__(self, state: State) -> None:
        self._limit = state.params.max_jobs_pu
        self._running = dict(state.running_per_user) if self._limit else {}
        self._records = state.records

    def full(self, job_id: int) -> bool:
        if not self._limit:
            return False
        return self._running.get(self._records[job_id].job.user, 0) >= self._limit

    def started(self, job_id: int) -> None:
        if self._limit:
            user = self._records[job_id].job.user
            self._running[user] = self._running.get(user, 0) + 1


def main_pass(state: State) -> dict[int, int]:
    """Strictly in priority order until the first job that does not fit: who gets which nodes.

    A job over its user's limit is passed over. One that waits for particular nodes keeps those, and
    does not hold up the others.
    """
    free = state.free_nodes
    starting: dict[int, int] = {}
    users = _Users(state)
    for entry in state.order():
        job_id = entry.job_id
        if users.full(job_id):
            continue
        pinned = state.pins.get(job_id)
        if pinned is None and entry.nodes > free.bit_count():
            break
        nodes = choose(free, entry.nodes, state.pins) if pinned is None else pinned
        if nodes & free == nodes:
            starting[job_id] = nodes
            users.started(job_id)
        free &= ~nodes
    return starting


def backfill_pass(state: State) -> dict[int, int]:
    """Plan in priority order; who gets a place now. Stops when nobody further can."""
    if not state.free_nodes:
        return {}
    plan = _Plan(state)
    order = state.order()
    for done, entry in enumerate(order):
        if done % _PLACES_BETWEEN_CHECKS == 0:
            reached = None if state.params.max_jobs_pu else done + plan.tests_left
            if nothing_fits_now(plan.profile, order[done:reached]):
                break
        if not plan.add(entry):
            break
    return plan.starting


def full_plan(state: State) -> dict[int, int]:
    """The planned start of every job that has one: what `squeue --start` prints."""
    plan = _Plan(state)
    for entry in state.order():
        if not plan.add(entry):
            break
    return plan.starts


class _Plan:
    """One walk down the queue."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._users = _Users(state)
        self._free = state.free_nodes
        self.tests_left = state.params.bf_max_job_test
        self.profile = Profile(state.params, state.now, self._free.bit_count(), state.running)
        self.starting: dict[int, int] = {}
        self.starts: dict[int, int] = {}

    def add(self, entry: Entry) -> bool:
        """Plan one job; False when bf_max_job_test is spent."""
        job_id = entry.job_id
        if self._users.full(job_id):
            return True
        if not self.tests_left:
            return False
        self.tests_left -= 1
        pinned = self._state.pins.get(job_id)
        earliest = 0 if pinned is None else self._free_from(pinned)
        start = self.profile.place(entry.nodes, entry.time_limit_s, earliest)
        if start is not None:
            self.starts[job_id] = start
            if start == self._state.now:
                self._start(entry, pinned)
        return True

    def _start(self, entry: Entry, pinned: int | None) -> None:
        nodes = pinned
        if nodes is None:
            nodes = choose(self._free, entry.nodes, self._state.pins)
        self._free &= ~nodes
        self.starting[entry.job_id] = nodes
        self._users.started(entry.job_id)

    def _free_from(self, nodes: int) -> int:
        """When the last of these nodes comes free by the limits."""
        if nodes & self._free == nodes:
            return 0
        records = self._state.records
        ends = [e.key for e in self._state.running if records[e.job_id].allocated & nodes]
        # Taken within this very plan: by a job of unknown end, so not before the window's.
        return self.profile.rounded(max(ends, default=self.profile.horizon))
