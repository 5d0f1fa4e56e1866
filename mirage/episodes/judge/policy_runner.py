"""Runs a policy over a table. The policy is shown what the service would have shown it."""

import heapq
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.chain import get_default_overlap_s
from mirage.domain.decision import RECENT_HANDOVERS, RECENT_JOBS, Action, PolicyView, Waits
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import UNKNOWN, Queue
from mirage.domain.time_units import MINUTE_S
from mirage.episodes.table.episode_table import NONE, EpisodeTable, StartedJobs
from mirage.features.observation import spec
from mirage.policy.rules.overlap_bound import compute_max_lead_s
from mirage.policy.rules.return_rule import BACK_S, choose_return_lead
from mirage.ports import Policy

Chosen = NDArray[np.int64]
"""[E]: the number of the instant at which each successor becomes eligible. The last instant is
the reactive one."""

OWN_PLAN = "planned-quantile"
"""The name of what links plan by themselves where no service answers."""
OWN_LOOKS = 3
"""A link plans its successor's release this many times at most: when it starts, and twice more."""
OWN_MOVED_S = 360
"""A link keeps its plan if a new one would move the release by fewer seconds."""
OWN_SAMPLE = 20
"""Of similar jobs a link reads so many waits, the latest ones."""
OWN_LEAST_LEAD_S = 60
"""A lead of fewer seconds is no plan: the successor becomes eligible at its predecessor's end."""

_PARTITION = "batch"
_RIVAL = JobId(1)


def choose_reactive(table: EpisodeTable) -> Chosen:
    """Choose the predecessor's end for every successor."""
    return np.full(len(table), table.outcome_s.shape[1] - 1, dtype=np.int64)


def choose_oracle(table: EpisodeTable, overlap_price: float, startup_h: float = 0.0) -> Chosen:
    """Choose the cheapest instant of each hand-over, which is known only afterwards. Of equals
    the last one."""
    x = table.outcome_h + startup_h
    cost = np.maximum(x, 0.0) + overlap_price * np.maximum(-x, 0.0)
    last_first = cost[:, ::-1]
    return np.asarray(cost.shape[1] - 1 - last_first.argmin(axis=1), dtype=np.int64)


def run_policy(
    table: EpisodeTable,
    policy: Policy,
    overlap_price: float,
    told: Callable[[int], None] = lambda _: None,
) -> Chosen:
    """Choose the first instant at which the policy frees each successor, else its predecessor's
    end.

    All hand-overs of the table run side by side in time, so a past hand-over is known to the policy
    once its successor has started. `told` is called with each hand-over decided.
    """
    return _PolicyRun(table, policy, overlap_price).choose_instants(told)


def run_own_plan(
    table: EpisodeTable,
    rule: Policy,
    overlap_price: float,
    told: Callable[[int], None] = lambda _: None,
) -> Chosen:
    """Choose the first instant at or after the release that the running link has planned by itself.

    The link plans by the rule when it starts, and twice more at most, as
    slurm_plugin/mirage_planned.py does. Between these looks the plan does not change. The lead is
    at most the default max-overlap of the time limit plus the p10 of the wait. `told` is called
    with each hand-over decided.
    """
    return _PolicyRun(table, rule, overlap_price).choose_planned_instants(told)


def play_returns(
    table: EpisodeTable, chosen: Chosen, overlap_price: float, most: int
) -> tuple[Chosen, Ints]:
    """Let each link that starts early decide, as it does on the cluster: keep or give back.

    `most`: so often a hand-over at most. Returns the instants of the last releases, and [E] how
    often each link gave its nodes back. A row of the table says what would have come of a release
    then, so a second release is a later row: the first one at or after the planned release.
    """
    last, returns = chosen.copy(), np.zeros(len(table), dtype=np.int64)
    for i in range(len(table)):
        while returns[i] < most:
            again = _find_next_release(table, i, int(last[i]), overlap_price)
            if again is None:
                break
            last[i] = again
            returns[i] += 1
    return last, returns


def _find_next_release(
    table: EpisodeTable, i: int, released: int, overlap_price: float
) -> int | None:
    """Return the place of the instant at which the i-th link is released again, if it starts by the
    release at `released` and gives its nodes back; None if it keeps them."""
    instant_s = table.instant_s
    left_s = -int(table.outcome_s[i, released])
    if left_s <= 0:
        return None
    end_s = int(instant_s[-1])
    start_s = end_s - left_s
    lead_s = choose_return_lead(left_s, start_s - int(instant_s[released]), overlap_price)
    if lead_s is None:
        return None
    return int(np.searchsorted(instant_s, max(end_s - lead_s, start_s + BACK_S)))


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


class _PolicyRun:
    """One pass over all instants of a table in their order."""

    def __init__(self, table: EpisodeTable, policy: Policy, overlap_price: float) -> None:
        self._table = table
        self._policy = policy
        self._price = overlap_price
        self._last = table.outcome_s.shape[1] - 1
        self._known_features = table.about.features_fingerprint == spec.FINGERPRINT
        self._started: dict[int, StartedJobs] = {}
        self._past = _PastHandovers(table.about.nodes, table.about.time_limit_s)
        self._partition = table.about.partition or _PARTITION
        self._queue = _build_rival_queue(self._partition.split(",")[0])

    def choose_instants(self, told: Callable[[int], None]) -> Chosen:
        instants = self._table.instants
        chosen = np.full(len(self._table), NONE, dtype=np.int64)
        # Stable: where two hand-overs share an instant, the earlier start point comes first.
        for flat in np.argsort(instants, axis=None, kind="stable"):
            i, k = divmod(int(flat), instants.shape[1])
            if chosen[i] != NONE:
                continue
            if k == self._last or self._should_free(i, k, int(instants[i, k])):
                chosen[i] = k
                self._record_outcome(i, k, int(instants[i, k]))
                self._started.pop(i, None)
                told(i)
        return chosen

    def choose_planned_instants(self, told: Callable[[int], None]) -> Chosen:
        chosen = np.full(len(self._table), self._last, dtype=np.int64)
        for i in range(len(self._table)):
            chosen[i] = self._follow_plan(i)
            self._started.pop(i, None)
            told(i)
        return chosen

    def _follow_plan(self, i: int) -> int:
        """Return the place of the instant at which the plan of the i-th link is carried out."""
        instants = [int(at) for at in self._table.instants[i]]
        end = int(self._table.predecessor_end[i])
        release, looks, look_at = end, 0, instants[0]
        for k, now in enumerate(instants[:-1]):
            if looks < OWN_LOOKS and now >= look_at:
                wanted = self._plan_release(i, k, now)
                if end in {wanted, release} or abs(wanted - release) >= OWN_MOVED_S:
                    release = wanted
                # Nearer to the release more is known.
                look_at = now + max(MINUTE_S, 3 * (release - now) // 4)
                looks += 1
            if now >= release:
                return k
        return len(instants) - 1

    def _plan_release(self, i: int, k: int, now: int) -> int:
        """Return the release that the link would plan now: its own end where nothing is known."""
        start, end = int(self._table.predecessor_start[i]), int(self._table.predecessor_end[i])
        allowed_s = get_default_overlap_s(self._table.about.time_limit_s)
        view = replace(self._build_view(i, k, now), max_overlap_s=allowed_s)
        decision = self._policy.decide(view)
        most_s = compute_max_lead_s(decision, view)
        if decision.release_at is None or most_s is None:
            return end
        at = max(decision.release_at, end - int(most_s))
        if end - at < OWN_LEAST_LEAD_S:
            return end
        # Slurm counts whole minutes after the start: rounded up, and one at least.
        return start + MINUTE_S * max(1, -((start - at) // MINUTE_S))

    def _should_free(self, i: int, k: int, now: int) -> bool:
        return self._policy.decide(self._build_view(i, k, now)).action is Action.FREE

    def _build_view(self, i: int, k: int, now: int) -> PolicyView:
        about = self._table.about
        return PolicyView(
            now=now,
            predecessor_end=int(self._table.predecessor_end[i]),
            cluster=str(about.cluster.get("name", "")),
            partition=self._partition,
            nodes=about.nodes,
            time_limit_s=about.time_limit_s,
            overlap_price=self._price,
            jobs=self._get_known_jobs(i, now),
            handovers=self._past.get_known_waits(now),
            queue=self._build_queue(i, k, now),
            free_nodes=int(self._table.free_nodes[i, k]),
            observation=self._table.observations[i, k] if self._known_features else None,
            window=self._table.observations[i, : k + 1] if self._known_features else None,
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
        planned = int(self._table.rivals_planned_s[i, k])
        planned_start = UNKNOWN if planned == NONE else now + planned
        return replace(
            self._queue,
            taken_at=now,
            submit=np.array([now]),
            # A job that is not eligible does not wait in line.
            eligible=np.array([now if rivals else UNKNOWN]),
            planned_start=np.array([planned_start]),
        )

    def _record_outcome(self, i: int, k: int, freed: int) -> None:
        start = int(self._table.predecessor_end[i]) + int(self._table.outcome_s[i, k])
        self._past.add_handover(start, start - freed)


class _PastHandovers:
    """Past hand-overs, each known once its successor has started."""

    def __init__(self, nodes: int, limit_s: int) -> None:
        self._nodes = nodes
        self._limit_s = limit_s
        self._coming: list[tuple[int, int]] = []
        self._known: list[tuple[int, int]] = []
        self._shown = self._build_waits()

    def add_handover(self, start: int, wait_s: int) -> None:
        heapq.heappush(self._coming, (start, wait_s))

    def get_known_waits(self, now: int) -> Waits:
        if not self._coming or self._coming[0][0] > now:
            return self._shown
        while self._coming and self._coming[0][0] <= now:
            self._known.append(heapq.heappop(self._coming))
        self._shown = self._build_waits()
        return self._shown

    def _build_waits(self) -> Waits:
        lately = self._known[-RECENT_HANDOVERS:]
        return Waits(
            start=np.array([start for start, _ in lately], dtype=np.int64),
            wait_s=np.array([wait_s for _, wait_s in lately], dtype=np.int64),
            nodes=np.full(len(lately), self._nodes, dtype=np.int64),
            time_limit_s=np.full(len(lately), self._limit_s, dtype=np.int64),
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
