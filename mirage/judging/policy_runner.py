"""Runs a policy over an episode table, with the views that the service would have built.

No view contains anything that was not known at its instant.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.chain import get_default_overlap_s
from mirage.domain.decision import (
    RECENT_HANDOVERS,
    RECENT_JOBS,
    Action,
    Decision,
    Forecast,
    PolicyView,
    Waits,
)
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.ports import Policy, SimplePolicy
from mirage.domain.snapshot import UNKNOWN, Queue
from mirage.domain.time_units import MINUTE_S
from mirage.judging.table.episode_table import NONE, EpisodeTable, StartedJobs
from mirage.observation import spec
from mirage.policies.rules.overlap_bound import bound_overlap, compute_max_lead_s
from mirage.policies.rules.release_cost import bound_new_lead, choose_new_lead
from mirage.policies.rules.return_rule import BACK_S

ChosenInstants = NDArray[np.int64]
"""[E]: the number of the instant at which each successor becomes eligible. The last instant is
the reactive one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a link may do that starts before its predecessor's end."""

    overlap_price: float
    returns: int = 0
    """How often it may give its nodes back."""
    guarded: bool = False
    """Whether the default max-overlap bounds the overlap: a release may not be so early that the
    link would start sooner, and a link that does start sooner leaves its nodes."""


@dataclass(frozen=True, slots=True)
class PlayedHandovers:
    """The releases and the returns of each hand-over: columns [E]."""

    release_instants: ChosenInstants
    """The instants of the last releases."""
    returns: Ints
    """How often each link left its nodes before its predecessor's end."""
    releases: Sequence[Sequence[int]] = ()
    """[E]: the instants of all releases, the chosen one last. Empty where nothing was played."""


OWN_PLAN = "planned-quantile"
"""The name of the plan that links make by themselves if no service answers."""
OWN_UPDATES = 3
"""A link plans its successor's release this many times at most: when it starts, and twice more."""
OWN_MOVED_S = 360
"""A link keeps its plan if a new one would move the release by fewer seconds."""
OWN_SAMPLE = 20
"""Of similar jobs a link reads so many waits, the latest ones."""
OWN_LEAST_LEAD_S = 60
"""A lead of fewer seconds is no plan: the successor becomes eligible at its predecessor's end."""

_PARTITION = "batch"
_RIVAL = JobId(1)


def choose_reactive(table: EpisodeTable) -> ChosenInstants:
    """Choose the predecessor's end for every successor."""
    return np.full(len(table), table.outcome_s.shape[1] - 1, dtype=np.int64)


def choose_oracle(
    table: EpisodeTable, overlap_price: float, startup_h: float = 0.0
) -> ChosenInstants:
    """Choose the cheapest instant of each hand-over, which is known only afterwards. Of equals
    the last one."""
    outcome_h = table.outcome_h + startup_h
    cost_h = np.maximum(outcome_h, 0.0) + overlap_price * np.maximum(-outcome_h, 0.0)
    last_first = cost_h[:, ::-1]
    return np.asarray(cost_h.shape[1] - 1 - last_first.argmin(axis=1), dtype=np.int64)


def run_policy(
    table: EpisodeTable,
    policy: Policy,
    overlap_price: float,
    on_decided: Callable[[int], None] = lambda _: None,
) -> ChosenInstants:
    """Choose the first instant at which the policy frees each successor, else its predecessor's
    end. A link that starts early holds its nodes. `on_decided` is called with the number of each
    hand-over once it is decided.
    """
    return play_policy(
        table, policy, Terms(overlap_price=overlap_price), on_decided
    ).release_instants


def play_policy(
    table: EpisodeTable,
    policy: Policy,
    terms: Terms,
    on_decided: Callable[[int], None] = lambda _: None,
) -> PlayedHandovers:
    """Play each hand-over: the policy releases its successor, which may leave its nodes again.

    The table has the outcome of a release at each instant, so a second release is a later instant.
    A link that starts soon after its release keeps or gives back its nodes by the policy's forecast
    at the release, any other link by its own last wait. If it gives them back, its new release is
    planned at once. All hand-overs of the table run in the order of time, so a past hand-over is
    known to the policy once its successor has started. `on_decided` is called with the number of
    each hand-over once it is decided.
    """
    return _PolicyRun(table, policy, terms).play_handovers(on_decided)


def play_own_plan(
    table: EpisodeTable,
    rule: Policy,
    terms: Terms,
    on_decided: Callable[[int], None] = lambda _: None,
) -> PlayedHandovers:
    """Play what links do by themselves, without a service.

    The running link plans its successor's release by the rule when it starts, and twice more at
    most, as mirage_slurm/planner/planned.py does. Between these updates the plan does not change.
    `compute_max_lead_s` bounds the lead. `on_decided` is called with the number of each hand-over
    once it is played.
    """
    return _PolicyRun(table, rule, terms).play_planned_handovers(on_decided)


def select_known_waits(started: StartedJobs, now: int) -> Waits:
    """Select the jobs that had started by then, in the form that a view shows."""
    end = int(np.searchsorted(started.at, now, side="right"))
    rows = slice(max(0, end - RECENT_JOBS), end)
    return Waits(
        start=started.at[rows],
        wait_s=started.wait_s[rows],
        nodes=started.nodes[rows],
        time_limit_s=started.limit_s[rows],
    )


class OwnPlan(SimplePolicy):
    """The release of one successor that its running predecessor plans by itself, without a service.

    That link plans when it starts, and twice more at most, as mirage_slurm/planner/planned.py does.
    Between these updates the plan does not change.
    """

    name = OWN_PLAN

    def __init__(self, rule: Policy, start: int, end: int) -> None:
        """`start` and `end` of the running link, epoch seconds; `rule` says when to release."""
        self._rule, self._start, self._end = rule, start, end
        self.release_at = end
        """The end is no plan: the successor becomes eligible then."""
        self._forecast: Forecast | None = None
        self._update_count, self._next_update = 0, start

    def is_update_due(self, now: int) -> bool:
        return self._update_count < OWN_UPDATES and now >= self._next_update

    def update_plan(self, view: PolicyView) -> None:
        """Plan the release anew, and stay with the old plan where it would move by little."""
        decision = self._rule.decide(view)
        new_release_at = self._bound_release(decision, view)
        if (
            self._end in {new_release_at, self.release_at}
            or abs(new_release_at - self.release_at) >= OWN_MOVED_S
        ):
            self.release_at, self._forecast = new_release_at, decision.forecast
        # Nearer to the release more is known.
        self._next_update = view.now + max(MINUTE_S, 3 * (self.release_at - view.now) // 4)
        self._update_count += 1

    def decide(self, view: PolicyView) -> Decision:
        """Release the successor at the first instant that is not before the plan's."""
        if self.is_update_due(view.now):
            self.update_plan(view)
        return Decision(
            action=Action.FREE if view.now >= self.release_at else Action.WAIT,
            reason=f"the link before it has planned its release for {self.release_at}",
            policy=self.name,
            forecast=self._forecast,
            release_at=self.release_at,
        )

    def _bound_release(self, decision: Decision, view: PolicyView) -> int:
        most_s = compute_max_lead_s(decision, view)
        if decision.release_at is None or most_s is None:
            return self._end
        release_at = max(decision.release_at, self._end - int(most_s))
        if self._end - release_at < OWN_LEAST_LEAD_S:
            return self._end
        # Slurm counts whole minutes after the start: rounded up, and one at least.
        return self._start + MINUTE_S * max(1, -((self._start - release_at) // MINUTE_S))


class _PolicyRun:
    """One pass over all instants of a table in their order."""

    def __init__(self, table: EpisodeTable, policy: Policy, terms: Terms) -> None:
        self._table = table
        self._policy = policy
        self._terms = terms
        self._last_instant = table.outcome_s.shape[1] - 1
        self._max_overlap_s = get_default_overlap_s(table.metadata.time_limit_s)
        self._has_known_features = table.metadata.features_fingerprint == spec.FINGERPRINT
        self._started: dict[int, StartedJobs] = {}
        self._past = _PastHandovers(table.metadata.nodes, table.metadata.time_limit_s)
        self._partition = table.metadata.partition or _PARTITION
        self._queue = _build_rival_queue(self._partition.split(",")[0])
        self._release_instants = np.full(len(table), self._last_instant, dtype=np.int64)
        self._returns = np.zeros(len(table), dtype=np.int64)
        self._releases: list[list[int]] = [[] for _ in range(len(table))]
        self._planned = np.full(len(table), NONE, dtype=np.int64)
        """[E]: the instant of a link's planned release; NONE: the policy decides it."""

    def play_handovers(self, on_decided: Callable[[int], None]) -> PlayedHandovers:
        instants = self._table.instants
        is_over = np.zeros(len(self._table), dtype=np.bool_)
        # Stable: where two hand-overs share an instant, the earlier start point comes first.
        for flat in np.argsort(instants, axis=None, kind="stable"):
            i, k = divmod(int(flat), instants.shape[1])
            if is_over[i]:
                continue
            waits_s = self._release(i, k)
            if waits_s is None:
                continue
            self._choose(i, k)
            if not self._leave_nodes(i, waits_s):
                is_over[i] = True
                self._record_outcome(i, on_decided)
        return PlayedHandovers(self._release_instants, self._returns, self._releases)

    def play_planned_handovers(self, on_decided: Callable[[int], None]) -> PlayedHandovers:
        for i in range(len(self._table)):
            self._choose(i, self._follow_plan(i))
            while self._leave_nodes(i, ()):
                self._choose(
                    i, self._last_instant if self._planned[i] == NONE else int(self._planned[i])
                )
            self._started.pop(i, None)
            on_decided(i)
        return PlayedHandovers(self._release_instants, self._returns, self._releases)

    def _release(self, i: int, k: int) -> tuple[int, ...] | None:
        """Return the forecast waits if the standby is released at instant `k`; None if it is not.

        The waits are equally likely. The tuple is empty if there is no forecast.
        """
        planned = int(self._planned[i])
        if k == self._last_instant or k < planned:
            return () if k == self._last_instant else None
        decision = self._decide(i, k)
        if planned == NONE and decision.action is not Action.FREE:
            return None
        return () if decision.forecast is None else decision.forecast.waits_s

    def _choose(self, i: int, k: int) -> None:
        self._release_instants[i] = k
        self._releases[i].append(k)

    def _find_start(self, i: int) -> int:
        """Return the start after the last release, seconds of the predecessor's run."""
        return int(self._table.instant_s[-1]) + int(
            self._table.outcome_s[i, self._release_instants[i]]
        )

    def _leave_nodes(self, i: int, waits_s: tuple[int, ...]) -> bool:
        """Return whether the link leaves its nodes, and count that.

        If the link gives its nodes back, its new release is planned. If it is sent back because it
        is too early, the policy decides its new release.
        """
        start_s, end_s = self._find_start(i), int(self._table.instant_s[-1])
        left_s = end_s - start_s
        returns = self._terms.returns - int(self._returns[i])
        is_too_early = self._terms.guarded and left_s > self._max_overlap_s
        if left_s <= 0 or (returns <= 0 and not is_too_early):
            return False
        self._planned[i] = NONE
        if returns > 0:
            released_s = int(self._table.instant_s[self._release_instants[i]])
            lead_s = choose_new_lead(
                waits_s,
                self._terms.overlap_price,
                returns,
                released_s=released_s,
                start_s=start_s,
                end_s=end_s,
            )
            if self._terms.guarded:
                lead_s = bound_new_lead(lead_s, left_s, start_s - released_s, self._max_overlap_s)
            if lead_s is None:
                return False
            at_s = max(end_s - lead_s, start_s + BACK_S)
            self._planned[i] = np.searchsorted(self._table.instant_s, at_s)
        self._returns[i] += 1
        return True

    def _follow_plan(self, i: int) -> int:
        """Return the number of the instant at which the plan of the i-th link is carried out."""
        instants = [int(at) for at in self._table.instants[i]]
        start, end = int(self._table.predecessor_start[i]), int(self._table.predecessor_end[i])
        plan = OwnPlan(self._policy, start, end)
        for k, now in enumerate(instants[:-1]):
            if plan.is_update_due(now):
                plan.update_plan(
                    replace(self._build_view(i, k, now), max_overlap_s=self._max_overlap_s)
                )
            if now >= plan.release_at:
                return k
        return len(instants) - 1

    def _decide(self, i: int, k: int) -> Decision:
        view = self._build_view(i, k, int(self._table.instants[i, k]))
        decision = self._policy.decide(view)
        return bound_overlap(decision, view) if self._terms.guarded else decision

    def _build_view(self, i: int, k: int, now: int) -> PolicyView:
        metadata = self._table.metadata
        return PolicyView(
            now=now,
            predecessor_end=int(self._table.predecessor_end[i]),
            cluster=str(metadata.cluster.get("name", "")),
            partition=self._partition,
            nodes=metadata.nodes,
            time_limit_s=metadata.time_limit_s,
            overlap_price=self._terms.overlap_price,
            returns=max(0, self._terms.returns - int(self._returns[i])),
            max_overlap_s=self._max_overlap_s if self._terms.guarded else None,
            counts_no_wait=bool(self._returns[i]),
            jobs=self._get_known_jobs(i, now),
            handovers=self._past.get_known_waits(now),
            queue=self._build_queue(i, k, now),
            free_nodes=int(self._table.free_nodes[i, k]),
            observation=self._table.observations[i, k] if self._has_known_features else None,
            window=self._table.observations[i, : k + 1] if self._has_known_features else None,
            twin_s=None if self._table.twins is None else self._table.twins.get_forecast(i, k),
        )

    def _get_known_jobs(self, i: int, now: int) -> Waits:
        if i not in self._started:
            self._started[i] = self._table.get_started_jobs(i)
        return select_known_waits(self._started[i], now)

    def _build_queue(self, i: int, k: int, now: int) -> Queue:
        """Build the part of the queue that a rule reads: whether any rival waits, and the
        rivals' latest planned start."""
        rivals = int(self._table.rivals[i, k])
        planned_s = int(self._table.rivals_planned_s[i, k])
        planned_start = UNKNOWN if planned_s == NONE else now + planned_s
        return replace(
            self._queue,
            taken_at=now,
            submit=np.array([now]),
            # A job that is not eligible does not wait in line.
            eligible=np.array([now if rivals else UNKNOWN]),
            planned_start=np.array([planned_start]),
        )

    def _record_outcome(self, i: int, on_decided: Callable[[int], None]) -> None:
        k = self._release_instants[i]
        start = int(self._table.predecessor_end[i]) + int(self._table.outcome_s[i, k])
        self._past.add_handover(start, start - int(self._table.instants[i, k]))
        self._started.pop(i, None)
        on_decided(i)


class _PastHandovers:
    """Past hand-overs, each known once its successor has started."""

    def __init__(self, nodes: int, limit_s: int) -> None:
        self._nodes = nodes
        self._limit_s = limit_s
        self._future: list[tuple[int, int]] = []
        """A heap of (start, wait) of hand-overs whose successor has not started yet."""
        self._past: list[tuple[int, int]] = []
        """(start, wait) of hand-overs whose successor has started, in the order of the starts."""
        self._waits = self._build_waits()

    def add_handover(self, start: int, wait_s: int) -> None:
        heapq.heappush(self._future, (start, wait_s))

    def get_known_waits(self, now: int) -> Waits:
        """Return the waits of successors that have started by `now`, which must never decrease."""
        if not self._future or self._future[0][0] > now:
            return self._waits
        while self._future and self._future[0][0] <= now:
            self._past.append(heapq.heappop(self._future))
        self._waits = self._build_waits()
        return self._waits

    def _build_waits(self) -> Waits:
        recent = self._past[-RECENT_HANDOVERS:]
        return Waits(
            start=np.array([start for start, _ in recent], dtype=np.int64),
            wait_s=np.array([wait_s for _, wait_s in recent], dtype=np.int64),
            nodes=np.full(len(recent), self._nodes, dtype=np.int64),
            time_limit_s=np.full(len(recent), self._limit_s, dtype=np.int64),
        )


def _build_rival_queue(partition: str) -> Queue:
    rival = Job(
        job_id=_RIVAL,
        submit=0,
        state=JobState.PENDING,
        partition=partition,
        nodes=0,
        priority=1,
        eligible=0,
    )
    return Queue.from_jobs(0, (rival,))
