"""How long a chain needs until its work is done, under each policy, among the jobs of a log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.domain.ports import Policy
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.history.workloads.replay import Replay
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.work_run import Work, WorkRun, run_work
from mirage.lab.simulation.fidelity import Window
from mirage.simulator.simulator import Simulator

BOUND = "bound"
"""The chain whose every link starts as its predecessor ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPlan:
    """The same chain, submitted at evenly spaced instants of the log."""

    work: Work
    chains: int
    window: Window
    """The chains are submitted in it; their ends may lie after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFigures:
    """Means over the chains under one policy."""

    days: float
    """From the submission of the first link until the work is done."""
    days_p90: float
    interrupted_h: float
    """Hours in which no link ran, between two links."""
    node_hours: float
    """What the links ran for."""
    idle_node_hours: float
    """The part in which a link waited for its predecessor's end, or gave its nodes back."""
    returns: float
    """How often a link gave its nodes back."""
    links: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReport:
    policies: Mapping[str, FinishFigures]
    """By name, `bound` last."""
    chains: int
    """The chains that the figures are means of."""
    left_out: int
    """Chains that some policy did not bring to their end before the log's last submission."""


def choose_submissions(replay: Replay, work: Work, window: Window) -> Window:
    """Return the part of the window in which a chain can be submitted: it ends as long before the
    log's last submission as a chain takes at least. Raises InputError if nothing is left."""
    least_s = count_links(work) * work.startup_s + work.work_s
    last = int(replay.workload.submit.max())
    until = min(window.end, last - least_s)
    if until <= window.begin:
        raise InputError(
            f"a chain of {work.work_s / HOUR_S:g} h takes {least_s / DAY_S:.1f} days at least, and "
            f"the log's last submission comes {(last - window.begin) / DAY_S:.1f} days after "
            "--from: choose less --work, or a longer log"
        )
    return Window(begin=window.begin, end=until)


def count_links(work: Work) -> int:
    """Return the least number of links that the work takes. Raises InputError for a time limit in
    which no link gets to work."""
    useful_s = work.link.time_limit_s - work.startup_s
    if useful_s <= 0:
        raise InputError("--startup-time must be shorter than --time-limit")
    return -(-work.work_s // useful_s)


def measure_finishes(
    replay: Replay,
    sim: Simulator,
    plan: FinishPlan,
    policies: Mapping[str, Policy],
    set_share: Callable[[float], None] | None,
) -> FinishReport:
    """Play every chain under every policy, each in a copy of the same cluster.

    `sim` was built for the replay; it is changed. `set_share` is called with the share that is
    done, 0 to 1. Raises InputError if no chain's work was done before the log's last submission.
    """
    log = LogJobs.from_workload(replay.workload)
    at_most = int(replay.workload.submit.max())
    runs: dict[str, list[WorkRun]] = {name: [] for name in policies}
    span_s = plan.window.end - plan.window.begin
    for i in range(plan.chains):
        sim.advance_quietly(plan.window.begin + i * span_s // plan.chains)
        for name, policy in policies.items():
            fork = sim.fork(with_results=True)
            runs[name].append(run_work(fork, plan.work, policy, log, at_most=at_most))
        if set_share is not None:
            set_share((i + 1) / plan.chains)
    whole = [all(run.finished for run in chain) for chain in zip(*runs.values(), strict=True)]
    if not any(whole):
        raise InputError(
            "no chain's work was done before the log's last submission: choose less --work"
        )
    kept = {
        name: [run for run, ended in zip(chains, whole, strict=True) if ended]
        for name, chains in runs.items()
    }
    kept[BOUND] = [_bound_run(run, plan.work) for run in next(iter(kept.values()))]
    return FinishReport(
        policies={name: _summarize(chains, plan.work) for name, chains in kept.items()},
        chains=sum(whole),
        left_out=plan.chains - sum(whole),
    )


def _bound_run(run: WorkRun, work: Work) -> WorkRun:
    """Return the chain from the same first start on without an interruption and without idling."""
    links = count_links(work)
    began = run.began or run.submitted
    ran_s = work.work_s + links * work.startup_s
    return WorkRun(
        submitted=run.submitted, began=began, finished=began + ran_s, links=links, ran_s=ran_s
    )


def _summarize(runs: Sequence[WorkRun], work: Work) -> FinishFigures:
    days = np.array([((run.finished or 0) - run.submitted) / DAY_S for run in runs])
    node_h = work.link.nodes / HOUR_S
    return FinishFigures(
        days=float(days.mean()),
        days_p90=float(np.quantile(days, 0.9)),
        interrupted_h=float(np.mean([run.interrupted_s for run in runs])) / HOUR_S,
        node_hours=float(np.mean([run.ran_s for run in runs])) * node_h,
        idle_node_hours=float(np.mean([run.idle_s for run in runs])) * node_h,
        returns=float(np.mean([run.returns for run in runs])),
        links=float(np.mean([run.links for run in runs])),
    )


def build_finish_document(report: FinishReport, plan: FinishPlan) -> dict[str, Any]:
    """Build what `mirage simulate --work --json` prints."""
    return {
        "policies": {name: asdict(figures) for name, figures in report.policies.items()},
        "chains": report.chains,
        "left_out": report.left_out,
        "work_s": plan.work.work_s,
        "startup_s": plan.work.startup_s,
        "nodes": plan.work.link.nodes,
        "time_limit_s": plan.work.link.time_limit_s,
        "overlap_price": plan.work.overlap_price,
        "most_returns": plan.work.most_returns,
        "from": plan.window.begin,
        "until": plan.window.end,
    }
