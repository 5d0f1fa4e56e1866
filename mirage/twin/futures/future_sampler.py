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
from mirage.simulator.arrays import layout
from mirage.simulator.types import SimJob
from mirage.twin.future_removal import Arrivals, Present, join_arrivals
from mirage.twin.futures.run_time_distribution import (
    RunShares,
    RunTimeDistribution,
    RunTimeInputs,
    clamp_limit,
    draw_run_times,
)
from mirage.twin.futures.submission_history import NONE, SubmissionHistory, Submissions

_WAITS = -1.0
"""The share `elapsed_share` of a job that has not started. Its run time may be 0."""
_DRAWN = -1.0
"""The share `run_share` of a job whose run time is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """The settings of the draws of futures."""

    days: int = 7
    """The number of last days from which the days to come are drawn. A week has each weekday
    once."""
    block_s: int = DAY_S
    """Seconds of a block that is cut out of one day. It divides a day."""
    together: float = 0.5
    """The probability that a job uses the same random numbers as its user's other jobs in this
    future. Jobs of one user fail and finish together, and a mean over many independent jobs
    would be too certain."""


class RecentSubmissions:
    """The submissions of the last days, from which future submissions are cut."""

    def __init__(self, history: SubmissionHistory, now: int, resampling: Resampling) -> None:
        known_days = max(1, (now - history.since) // DAY_S)
        self._days = min(resampling.days, known_days)
        self._now, self._resampling = now, resampling
        past = history.list_submissions(now - self._days * DAY_S, now)
        used_kinds, self._kind = np.unique(past.kind, return_inverse=True)
        self.kinds: list[SimJob] = [history.kinds.jobs[k] for k in used_kinds]
        self._at = past.at.copy()
        self._cancelled_after = np.where(_mark_cancelled(past), past.end - past.at, NONE)
        limits = _clamp_limits(np.array([job.time_limit_s for job in self.kinds], dtype=np.int64))
        limits = limits[self._kind]
        groups = np.array([history.kinds.groups[k] for k in used_kinds], dtype=np.int64).reshape(
            -1, 3
        )
        ran_s = np.where(past.end == NONE, now, past.end) - past.start
        share = np.clip(ran_s / limits, 0.0, 1.0)
        has_run = (past.end != NONE) & (past.start != NONE)
        elapsed_share = np.where(past.start == NONE, _WAITS, share)
        groups = groups[self._kind]
        self.jobs = RunTimeInputs(
            groups, limits, elapsed_share, np.where(has_run, share, _DRAWN), groups[:, 1]
        )

    def cut_blocks(
        self, since: int, until: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], Ints]:
        """Return the rows of the past that arrive in (since, until], in the order of arrival,
        and their instants."""
        rows, instants = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.int64)]
        for begin in range(since, until, self._resampling.block_s):
            ago_s = int(rng.integers(1, self._days + 1)) * DAY_S
            source = self._now + (begin - self._now) % DAY_S - ago_s
            first, last = np.searchsorted(
                self._at, (source, source + self._resampling.block_s), side="right"
            )
            rows.append(np.arange(first, last))
            instants.append(self._at[first:last] - source + begin)
        return np.concatenate(rows), np.concatenate(instants)

    def build_arrivals(self, rows: NDArray[np.intp], at: Ints, run_s: Ints) -> Arrivals:
        """Return these rows once more, with these instants and run times."""
        after = self._cancelled_after[rows]
        cancel_at = np.where(after == NONE, NONE, at + after)
        return Arrivals(at=at, kind=self._kind[rows], run_s=run_s, cancel_at=cancel_at)


class FutureSampler:
    """Draws futures of one present, one after the other."""

    def __init__(
        self,
        present: Present,
        recent: RecentSubmissions,
        run_times: RunTimeDistribution,
        predecessors: Collection[tuple[str, int]],
        resampling: Resampling,
    ) -> None:
        """`predecessors`: user and start (epoch seconds) of the running links with a successor,
        which run on until their limits. Jobs that are added to the present afterwards change no
        draw."""
        self.now = present.now
        self._recent, self._resampling = recent, resampling
        self._live = _LiveJobs(present, run_times, predecessors)
        self._shares: RunShares = run_times.build_shares()
        live, past = self._live.jobs, recent.jobs
        users, user_rows = np.unique(np.concatenate([live.users, past.users]), return_inverse=True)
        live_users, past_users = np.split(user_rows, [len(live.users)])
        self._users = len(users)
        self._now_jobs, self._past_jobs = (
            live._replace(users=live_users),
            past._replace(users=past_users),
        )

    def draw_future(self, rng: np.random.Generator) -> "SampledFuture":
        """Draw one more future. Its arrivals are drawn only as far as they are asked for."""
        return SampledFuture(self, rng)

    def draw_user_dice(self, rng: np.random.Generator) -> Floats:
        """float64[users, 2] in [0, 1): the random numbers that jobs of one user share."""
        return rng.random((self._users, 2))

    def draw_run_times(self, user_dice: Floats, rng: np.random.Generator) -> Ints:
        """Draw how long every live job runs: int64[slots]."""
        rows = np.arange(len(self._now_jobs.limit_s))
        return self._live.place_in_slots(self._draw(self._now_jobs, rows, user_dice, rng))

    def draw_arrivals(
        self, since: int, until: int, user_dice: Floats, rng: np.random.Generator
    ) -> Arrivals:
        """Draw the jobs that arrive in (since, until]."""
        rows, at = self._recent.cut_blocks(since, until, rng)
        run_s = self._draw(self._past_jobs, rows, user_dice, rng)
        return self._recent.build_arrivals(rows, at, run_s)

    def _draw(
        self, jobs: RunTimeInputs, rows: Ints, user_dice: Floats, rng: np.random.Generator
    ) -> Ints:
        own = rng.random((len(rows), 3))
        return draw_run_times(self._shares, jobs, rows, user_dice, own, self._resampling.together)


class SampledFuture:
    """One drawn future: run times of the present jobs, and arrivals.

    Longer futures begin like shorter ones. Most successors start on the first day. So arrivals are
    drawn only as far as they are asked for.
    """

    def __init__(self, sampler: FutureSampler, rng: np.random.Generator) -> None:
        self._sampler, self._rng = sampler, rng
        self._user_dice = sampler.draw_user_dice(rng)
        self.run_s = sampler.draw_run_times(self._user_dice, rng)
        """int64[slots]."""
        self._until = sampler.now
        self._parts: list[Arrivals] = []

    def draw_arrivals(self, until: int) -> Arrivals:
        """Draw the jobs that arrive by an instant."""
        if until > self._until:
            arrivals = self._sampler.draw_arrivals(self._until, until, self._user_dice, self._rng)
            self._parts.append(arrivals)
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
        self._slots = np.flatnonzero(live[:, layout.PHASE] != layout.PHASE_FREE)
        records = live[self._slots]
        is_running = records[:, layout.PHASE] == layout.PHASE_RUNNING
        limits = records[:, layout.LIMIT].copy()
        elapsed_s = present.now - records[:, layout.START]
        owners = [users[a] for a in records[:, layout.ASSOCIATION]]
        groups = [
            run_times.assign_groups(user, limit_s, nodes)
            for user, limit_s, nodes in zip(
                owners, limits.tolist(), records[:, layout.NODES].tolist(), strict=True
            )
        ]
        clamped = _clamp_limits(limits)
        elapsed_share = np.where(is_running, elapsed_s / clamped, _WAITS)
        # Links go on for as long as they may: that is why there is a chain.
        starts = records[:, layout.START].tolist()
        is_link = [job in predecessors for job in zip(owners, starts, strict=True)]
        run_share = np.where(is_running & np.array(is_link, dtype=bool), 1.0, _DRAWN)
        group_numbers = np.array(groups, dtype=np.int64).reshape(-1, 3)
        self.jobs = RunTimeInputs(
            group_numbers, clamped, elapsed_share, run_share, group_numbers[:, 1]
        )
        self._room = len(live)

    def place_in_slots(self, run_s: Ints) -> Ints:
        """Return the run times by slot, int64[slots]."""
        slot_run_s = np.zeros(self._room, dtype=np.int64)
        slot_run_s[self._slots] = run_s
        return slot_run_s


def _clamp_limits(time_limit_s: Ints) -> Ints:
    return np.clip(time_limit_s, 1, clamp_limit(layout.FAR))


def _mark_cancelled(past: Submissions) -> NDArray[np.bool_]:
    never_ran: NDArray[np.bool_] = (past.end != NONE) & (past.start == NONE)
    return never_ran
