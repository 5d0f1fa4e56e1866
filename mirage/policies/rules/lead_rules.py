"""Rules that need no training: each computes from a view how long before the end to release."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.decision import Action, Decision, Forecast, PolicyView, Waits
from mirage.domain.ports import SimplePolicy
from mirage.domain.snapshot import UNKNOWN
from mirage.domain.time_units import MINUTE_S
from mirage.policies.rules.return_rule import choose_first_lead

_FEW_MINUTES = 3


class Reactive(SimplePolicy):
    """Never moves the standby: it becomes eligible when its predecessor ends. Plain Slurm."""

    name = "reactive"

    def decide(self, view: PolicyView) -> Decision:
        return Decision(
            action=Action.WAIT,
            reason="reactive never acts",
            policy=self.name,
            release_at=view.predecessor_end,
        )


class AtOnce(SimplePolicy):
    """Frees the standby as soon as it is queued: no interruption, and the most overlap."""

    name = "at-once"

    def decide(self, view: PolicyView) -> Decision:  # noqa: ARG002 - the port's signature
        return Decision(action=Action.FREE, reason="at-once always frees", policy=self.name)


@dataclass(frozen=True, slots=True)
class Average(SimplePolicy):
    """Frees the standby when the time left is at most the average wait of started jobs (the paper's
    `avg`).

    The paper takes the mean once, when the predecessor starts; here it is taken at each decision.
    """

    last: int = 100
    name: str = "average"

    def decide(self, view: PolicyView) -> Decision:
        waits = view.jobs.wait_s[-self.last :]
        if not len(waits):
            return _wait_without_history(self.name)
        forecast = Forecast(p50_s=float(waits.mean()), samples=len(waits))
        return decide_by_lead(view, forecast.p50_s, forecast, self.name)


@dataclass(frozen=True, slots=True)
class CheapestLead(SimplePolicy):
    """Frees at the lead that is expected to cost least if an early link may give its nodes back.

    It reads the latest similar jobs, as `Quantile` does. Links plan so by themselves, in chains
    whose links give back (mirage_slurm/planner/lead_rules.py).
    """

    last: int = 20
    enough: int = 20
    name: str = "cheapest-lead"

    def decide(self, view: PolicyView) -> Decision:
        similar = select_like_waits(view.jobs, view.nodes, view.time_limit_s, enough=self.enough)
        waits = similar[-self.last :]
        if not len(waits):
            return _wait_without_history(self.name)
        lead_s = choose_first_lead(tuple(waits.tolist()), view.overlap_price)
        return decide_by_lead(view, lead_s, build_forecast(waits), self.name)


@dataclass(frozen=True, slots=True)
class Quantile(SimplePolicy):
    """Frees at the empirical quantile of similar jobs' waits that is cheapest at the overlap price.

    With W the wait, L the lead and λ the price, E[(W-L)+] + λ·E[(L-W)+] is least where
    P(W <= L) = 1/(1+λ) (the newsvendor's fractile). Similar jobs have nodes and a time limit within
    a factor of two. As in QBETS, the history before a change point is dropped
    (`drop_before_change`). A link that may give its nodes back loses less by an early start: its
    lead is that of `CheapestLead` (docs/decisions/0039-release-by-expected-cost.md).
    """

    last: int = 200
    enough: int = 20
    name: str = "quantile"

    def decide(self, view: PolicyView) -> Decision:
        if view.returns > 0:
            return CheapestLead(name=self.name).decide(view)
        similar = select_like_waits(view.jobs, view.nodes, view.time_limit_s, enough=self.enough)
        waits = similar[-self.last :]
        if not len(waits):
            return _wait_without_history(self.name)
        fractile = compute_best_fractile(view.overlap_price)
        recent = drop_before_change(waits, fractile)
        return decide_by_lead(
            view, compute_quantile(recent, fractile), build_forecast(recent), self.name
        )


@dataclass(frozen=True, slots=True)
class FixedLead(SimplePolicy):
    """Uses the constant lead that would have cost least over the past hand-overs of this size."""

    last: int = 100
    enough: int = 5
    name: str = "fixed-lead"

    def decide(self, view: PolicyView) -> Decision:
        waits = view.handovers.wait_s[-self.last :]
        lead_s = self.find_lead_s(view)
        if lead_s is None:
            reason = (
                f"only {len(waits)} past hand-overs of this size are known, and {self.enough} are "
                "needed"
            )
            return Decision(action=Action.WAIT, reason=reason, policy=self.name)
        return decide_by_lead(view, lead_s, build_forecast(waits), self.name)

    def find_lead_s(self, view: PolicyView) -> float | None:
        """Return the lead in seconds; None if there are too few past hand-overs."""
        waits = view.handovers.wait_s[-self.last :]
        if len(waits) < self.enough:
            return None
        return compute_quantile(waits, compute_best_fractile(view.overlap_price))


class SlurmEstimate(SimplePolicy):
    """Uses Slurm's own plan: when would a job that joins the queue now start?

    Slurm plans no start for a dependent job, so the estimate comes from the other jobs' plans. A
    new job queues behind every queued job that has at most as many nodes. So it starts no sooner
    than the latest start that backfill plans for these jobs. Jobs that are held or not yet
    eligible, such as the standby, are not counted.
    """

    name = "slurm-estimate"

    def decide(self, view: PolicyView) -> Decision:
        queue = view.queue
        eligible = (queue.eligible != UNKNOWN) & (queue.eligible <= view.now)
        in_line = eligible & (queue.priority != 0)
        in_partition = np.isin(queue.partition, view.partition.split(","))
        is_no_wider = (queue.nodes <= view.nodes) & in_partition
        rivals = queue.pending_mask & in_line & is_no_wider
        planned_starts = queue.planned_start[rivals & (queue.planned_start != UNKNOWN)]
        if not len(planned_starts):
            return self._decide_without_plan(view, rivals_waiting=bool(rivals.any()))
        wait_s = float(max(0, planned_starts.max() - view.now))
        return decide_by_lead(
            view, wait_s, Forecast(p50_s=wait_s, samples=len(planned_starts)), self.name
        )

    def _decide_without_plan(self, view: PolicyView, *, rivals_waiting: bool) -> Decision:
        if rivals_waiting or view.free_nodes < view.nodes:
            reason = "Slurm plans no start for the jobs ahead"
            return Decision(action=Action.WAIT, reason=reason, policy=self.name)
        return decide_by_lead(view, 0.0, Forecast(p50_s=0.0), self.name)


def decide_by_lead(view: PolicyView, lead_s: float, forecast: Forecast, policy: str) -> Decision:
    """Free the standby if the time left is at most `lead_s`."""
    left_text, lead_text = _format_span(view.time_left_s), _format_span(lead_s)
    if view.time_left_s <= lead_s:
        action, reason = Action.FREE, f"{left_text} remain, no more than the lead of {lead_text}"
    else:
        action, reason = Action.WAIT, f"{left_text} remain, more than the lead of {lead_text}"
    return Decision(
        action=action,
        reason=reason,
        policy=policy,
        forecast=forecast,
        release_at=view.predecessor_end - round(lead_s),
    )


def compute_best_fractile(overlap_price: float) -> float:
    """Return the quantile level of the wait that is the cheapest lead at this price (the
    newsvendor's fractile)."""
    return 1.0 / (1.0 + overlap_price)


def compute_quantile(waits: NDArray[np.int64], fractile: float) -> float:
    """Return the least observed wait at or above the fractile. Nothing is interpolated."""
    return float(np.quantile(waits, fractile, method="inverted_cdf"))


def forecast_wait(jobs: Waits, nodes: int, time_limit_s: int) -> Forecast | None:
    """Forecast how long such a job would wait if submitted now, from the waits `Quantile` uses.

    None: there is no history.
    """
    waits = sample_like_waits(jobs, nodes, time_limit_s)
    return build_forecast(waits) if len(waits) else None


def sample_like_waits(jobs: Waits, nodes: int, time_limit_s: int) -> NDArray[np.int64]:
    """Return the waits that `forecast_wait` uses, oldest first; empty without a history."""
    rule = Quantile()
    waits = select_like_waits(jobs, nodes, time_limit_s, enough=rule.enough)[-rule.last :]
    return drop_before_change(waits, compute_best_fractile(OVERLAP_PRICE)) if len(waits) else waits


class Likeness(StrEnum):
    """What similar jobs have in common with one job, within a factor of two."""

    SHAPE = "nodes and time limit"
    NODES = "nodes"
    NOTHING = "nothing"
    """The jobs share only the partition."""


def select_like_waits(
    jobs: Waits, nodes: int, time_limit_s: int, *, enough: int
) -> NDArray[np.int64]:
    """Return the waits of similar jobs; if fewer than `enough`, those of jobs with about as many
    nodes; if these are too few as well, the waits of all jobs."""
    return jobs.wait_s[_select_alike(jobs, nodes, time_limit_s, enough)[1]]


def classify_likeness(jobs: Waits, nodes: int, time_limit_s: int) -> Likeness:
    """Return how similar the jobs are that `forecast_wait` uses."""
    return _select_alike(jobs, nodes, time_limit_s, Quantile().enough)[0]


def _select_alike(
    jobs: Waits, nodes: int, time_limit_s: int, enough: int
) -> tuple[Likeness, NDArray[np.bool_]]:
    same_nodes = _is_within_factor_two(jobs.nodes, nodes)
    same_limit = _is_within_factor_two(jobs.time_limit_s, time_limit_s)
    masks = ((Likeness.SHAPE, same_nodes & same_limit), (Likeness.NODES, same_nodes))
    for likeness, mask in masks:
        if mask.sum() >= enough:
            return likeness, mask
    return Likeness.NOTHING, np.ones(len(jobs.wait_s), dtype=bool)


def build_forecast(waits: NDArray[np.int64]) -> Forecast:
    p10, p50, p90 = (compute_quantile(waits, q) for q in (0.1, 0.5, 0.9))
    return Forecast(p10_s=p10, p50_s=p50, p90_s=p90, samples=len(waits))


def drop_before_change(
    waits: NDArray[np.int64], fractile: float, *, fewest: int = 20, significance: float = 0.05
) -> NDArray[np.int64]:
    """Return the waits after the last change point, oldest first; at least `fewest` of them.

    A change point is a run of waits above the fractile that is so long that chance would give it
    less often than `significance` (Brevik, Nurmi, Wolski: QBETS). Neighbouring waits are alike, so
    the needed length is multiplied by (1+r)/(1-r), where r is the lag-1 correlation of the
    exceedances.
    """
    above = waits > compute_quantile(waits, fractile)
    if len(waits) <= fewest or above.all() or not above[-1]:
        return waits
    run = len(above) - 1 - int(np.flatnonzero(~above)[-1])
    # Measure correlation before the run only; the run itself would inflate it.
    rho = _compute_lag_correlation(above[:-run])
    needed = np.log(significance) / np.log(1.0 - fractile) * (1 + rho) / (1 - rho)
    return waits if run < needed else waits[-max(run, fewest) :]


def _compute_lag_correlation(above: NDArray[np.bool_]) -> float:
    """Compute the lag-1 correlation, limited to 0 to 0.95; 0 if all values are the same."""
    earlier, later = above[:-1], above[1:]
    if len(above) < 3 or len({*earlier}) < 2 or len({*later}) < 2:  # noqa: PLR2004
        return 0.0
    return float(np.clip(np.corrcoef(earlier, later)[0, 1], 0.0, 0.95))


def _is_within_factor_two(column: NDArray[np.int64], value: int) -> NDArray[np.bool_]:
    return (column * 2 >= value) & (column <= value * 2)


def _wait_without_history(policy: str) -> Decision:
    reason = "no job that started is known yet"
    return Decision(action=Action.WAIT, reason=reason, policy=policy)


def _format_span(seconds: float) -> str:
    """Format a span in minutes, or in seconds if it is only a few minutes."""
    if abs(seconds) < _FEW_MINUTES * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min"
