"""Draws possible futures of a cluster from its past: how long jobs run, and which jobs arrive.

Days to come are built from past days: each block is cut out of one of the last days at the same
time of day, with its jobs, their users and their order. So bursts, arrays and the hours of the day
stay as they are, and present activity counts. Independent arrivals would smooth all this away.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S
from mirage.features.futures.run_time_distribution import (
    RunShares,
    RunTimeDistribution,
    clamp_limit,
    draw_shares,
)
from mirage.features.futures.submission_history import NONE, SubmissionHistory, Submissions
from mirage.sim.arrays import layout
from mirage.sim.future_removal import Arrivals, Present, join_arrivals
from mirage.sim.types import SimJob

_WAITS = -1.0
"""The share `ran` of a job that has not started. Its run time may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """Settings that say how futures are drawn."""

    days: int = 7
    """The number of last days from which the days to come are drawn. A week has each weekday
    once."""
    block_s: int = DAY_S
    """Seconds of a block that is cut out of one day. It divides a day."""
    together: float = 0.5
    """The probability that a job uses the same random numbers as its user's other jobs in this
    future. Jobs of one user fail and finish together, and a mean over many independent jobs
    would be too certain."""


@dataclass(frozen=True, slots=True)
class RunTimeInputs:
    """The columns, of equal length, of jobs whose run time is to be drawn."""

    groups: Ints
    """[n, 3] of `RunTimeDistribution.assign_groups`."""
    time_limit_s: Ints
    least: Floats
    """The share of its limit that a job has run so far; below 0: it has not started."""


class RecentSubmissions:
    """The submissions of the last days, from which future submissions are cut."""

    def __init__(self, history: SubmissionHistory, now: int, how: Resampling) -> None:
        seen = max(1, (now - history.since) // DAY_S)
        self._days = min(how.days, seen)
        self._now, self._how = now, how
        past = history.list_submissions(now - self._days * DAY_S, now)
        used, self._kind = np.unique(past.kind, return_inverse=True)
        self.kinds: list[SimJob] = [history.kinds.jobs[k] for k in used]
        self._at = past.at.copy()
        self._cancelled_after = np.where(_mark_cancelled(past), past.end - past.at, NONE)
        limits = np.array([job.time_limit_s for job in self.kinds], dtype=np.int64)[self._kind]
        groups = np.array([history.kinds.groups[k] for k in used], dtype=np.int64).reshape(-1, 3)
        ran_s = np.where(past.end == NONE, now, past.end) - past.start
        share = np.clip(ran_s / _clamp_limits(limits), 0.0, 1.0)
        self.jobs = RunTimeInputs(
            groups[self._kind], limits, np.where(past.start == NONE, _WAITS, share)
        )
        self._known = (past.end != NONE) & (past.start != NONE)

    def cut_blocks(
        self, since: int, until: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], Ints]:
        """Return the rows of the past that arrive in (since, until], in the order of arrival,
        and their instants."""
        rows, instants = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.int64)]
        for begin in range(since, until, self._how.block_s):
            ago = int(rng.integers(1, self._days + 1)) * DAY_S
            source = self._now + (begin - self._now) % DAY_S - ago
            first, last = np.searchsorted(
                self._at, (source, source + self._how.block_s), side="right"
            )
            rows.append(np.arange(first, last))
            instants.append(self._at[first:last] - source + begin)
        return np.concatenate(rows), np.concatenate(instants)

    def build_arrivals(self, rows: NDArray[np.intp], at: Ints, share: Floats) -> Arrivals:
        """Return these rows once more. `share` counts if a job's run time is not known."""
        after = self._cancelled_after[rows]
        share = np.where(self._known[rows], self.jobs.least[rows], share)
        return Arrivals(
            at=at,
            kind=self._kind[rows],
            run_s=compute_run_times(self.jobs.time_limit_s[rows], share),
            cancel_at=np.where(after == NONE, NONE, at + after),
        )


class FutureSampler:
    """Draws futures of one present, one after the other."""

    def __init__(
        self,
        present: Present,
        recent: RecentSubmissions,
        run_times: RunTimeDistribution,
        predecessors: Collection[tuple[str, int]],
        how: Resampling,
    ) -> None:
        """`predecessors`: user and start (epoch seconds) of the running links with a successor,
        which run on until their limits. Jobs that are added to the present afterwards change no
        draw."""
        self.now = present.now
        self._recent, self._how = recent, how
        self._live = _LiveJobs(present, run_times, predecessors)
        self._shares: RunShares = run_times.build_shares()
        users = np.concatenate([self._live.jobs.groups[:, 1], recent.jobs.groups[:, 1]])
        self._users, of_rows = np.unique(users, return_inverse=True)
        self._of_live, self._of_recent = np.split(of_rows, [len(self._live.jobs.groups)])

    def draw_future(self, rng: np.random.Generator) -> "SampledFuture":
        """Draw one more future. Its arrivals are drawn only as far as they are asked for."""
        return SampledFuture(self, rng)

    def draw_user_dice(self, rng: np.random.Generator) -> Floats:
        """float64[users, 2] in [0, 1): the random numbers that jobs of one user share."""
        return rng.random((len(self._users), 2))

    def draw_run_times(self, of_users: Floats, rng: np.random.Generator) -> Ints:
        """Draw how long every live job runs: int64[slots]."""
        live = self._live.jobs
        dice = self._draw_dice(self._of_live, of_users, rng)
        return self._live.build_run_times(draw_shares(self._shares, live.groups, live.least, dice))

    def draw_arrivals(
        self, since: int, until: int, of_users: Floats, rng: np.random.Generator
    ) -> Arrivals:
        """Draw the jobs that arrive in (since, until]."""
        rows, at = self._recent.cut_blocks(since, until, rng)
        past = self._recent.jobs
        dice = self._draw_dice(self._of_recent[rows], of_users, rng)
        share = draw_shares(self._shares, past.groups[rows], past.least[rows], dice)
        return self._recent.build_arrivals(rows, at, share)

    def _draw_dice(
        self, users: NDArray[np.intp], shared: Floats, rng: np.random.Generator
    ) -> Floats:
        """float64[n, 2] in [0, 1)."""
        own = rng.random((len(users), 2))
        goes_along = rng.random(len(users)) < self._how.together
        return np.where(goes_along[:, None], shared[users], own)


class SampledFuture:
    """One drawn future: run times of the present jobs, and arrivals.

    Longer futures begin like shorter ones. Most successors start on the first day. So arrivals are
    drawn only as far as they are asked for.
    """

    def __init__(self, futures: FutureSampler, rng: np.random.Generator) -> None:
        self._futures, self._rng = futures, rng
        self._of_users = futures.draw_user_dice(rng)
        self.run_s = futures.draw_run_times(self._of_users, rng)
        """int64[slots]."""
        self._until = futures.now
        self._parts: list[Arrivals] = []

    def draw_arrivals(self, until: int) -> Arrivals:
        """Draw the jobs that arrive by an instant."""
        if until > self._until:
            more = self._futures.draw_arrivals(self._until, until, self._of_users, self._rng)
            self._parts.append(more)
            self._until = until
        return join_arrivals(self._parts)


class _LiveJobs:
    """The run times of the present jobs."""

    def __init__(
        self,
        present: Present,
        run_times: RunTimeDistribution,
        predecessors: Collection[tuple[str, int]],
    ) -> None:
        live, users = present.live, present.users
        self._slots = np.flatnonzero(live[:, layout.PHASE] != layout.GONE)
        here = live[self._slots]
        runs = here[:, layout.PHASE] == layout.RUNS
        limits = here[:, layout.LIMIT]
        elapsed_s = present.now - here[:, layout.START]
        owners = [users[a] for a in here[:, layout.ASSOCIATION]]
        groups = [
            run_times.assign_groups(user, limit_s, nodes)
            for user, limit_s, nodes in zip(
                owners, limits.tolist(), here[:, layout.NODES].tolist(), strict=True
            )
        ]
        least = np.where(runs, elapsed_s / _clamp_limits(limits), _WAITS)
        self.jobs = RunTimeInputs(np.array(groups, dtype=np.int64).reshape(-1, 3), limits, least)
        # Links go on for as long as they may: that is why there is a chain.
        known = [
            job in predecessors for job in zip(owners, here[:, layout.START].tolist(), strict=True)
        ]
        self._certain = runs & np.array(known, dtype=bool)
        self._room = len(live)

    def build_run_times(self, share: Floats) -> Ints:
        """Run times, int64[slots]."""
        found = np.zeros(self._room, dtype=np.int64)
        found[self._slots] = compute_run_times(
            self.jobs.time_limit_s, np.where(self._certain, 1.0, share)
        )
        return found


def compute_run_times(time_limit_s: Ints, share: Floats) -> Ints:
    """Return run times in seconds. A job that needs all of its limit is ended by the limit,
    whatever the limit is."""
    part: Ints = np.rint(share * _clamp_limits(time_limit_s)).astype(np.int64)
    return np.where(share >= 1.0, layout.FAR >> 1, part)


def _clamp_limits(time_limit_s: Ints) -> Ints:
    return np.clip(time_limit_s, 1, clamp_limit(layout.FAR))


def _mark_cancelled(past: Submissions) -> NDArray[np.bool_]:
    never_ran: NDArray[np.bool_] = (past.end != NONE) & (past.start == NONE)
    return never_ran
