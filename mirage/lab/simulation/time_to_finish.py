"""Measures how long a chain takes to finish its work under each policy, among the jobs of a log."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.chain import Style
from mirage.domain.ports import Needs
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.history.workloads.replay import Replay
from mirage.judging.policy_runner import OWN_PLAN, OWN_SAMPLE
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.work_run import Planner, Work, WorkRun, run_work
from mirage.lab.episodes.chains.world_memory import WorldMemory
from mirage.lab.evaluation.policy_evaluation import has_learned_since
from mirage.lab.simulation.fidelity import Window
from mirage.lab.study_output import StudyOutput
from mirage.policies.auto_policy import AutoPolicy
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.registry import MOVES_OFTEN, NAMES, get_policy, is_model
from mirage.policies.rules.lead_rules import Quantile
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
    """Node-hours of all links."""
    idle_node_hours: float
    """The part in which a link ran beside its predecessor, or gave its nodes back."""
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
    """Return the part of the window in which a chain can be submitted.

    A chain submitted later could not finish before the log's last submission. Raises InputError if
    nothing is left of the window.
    """
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


def find_planners(
    names: Iterable[str], models: Path, plan: FinishPlan, cluster: str, output: StudyOutput
) -> dict[str, Planner]:
    """Find the planner of each name: a policy, or OWN_PLAN for links that plan without a service.

    `models`: the folder of models. Warns of a model that was trained on the weeks that are played;
    `auto` leaves such a model out. Raises InputError for an unknown name, UnfitModel for a model
    that cannot be used.
    """
    return {name: _find_planner(name, models, plan, cluster, output) for name in names}


def _find_planner(
    name: str, models: Path, plan: FinishPlan, cluster: str, output: StudyOutput
) -> Planner:
    if name == OWN_PLAN:
        # Links of a switch chain plan from more jobs (decision 0038).
        rule = Quantile() if plan.work.style is Style.SWITCH else Quantile(last=OWN_SAMPLE)
        return Planner(policy=rule, by_links=True)
    if name not in NAMES and not is_model(name):
        names = ", ".join((*NAMES, OWN_PLAN))
        raise InputError(
            f"there is no policy {name!r}: choose one of {names}, or models/NAME/VERSION"
        )
    policy = get_policy(name, models)
    if isinstance(policy, ModelPolicy) and has_learned_since(policy, cluster, plan.window.begin):
        output.warn(f"{policy.name} was trained on these weeks, or later: its figures are too good")
    if isinstance(policy, AutoPolicy):
        trained_names = {
            c.name for c in policy.candidates if has_learned_since(c, cluster, plan.window.begin)
        }
        for trained_name in sorted(trained_names):
            output.warn(
                f"{trained_name} was trained on these weeks, or later: auto does without it"
            )
        policy = replace(
            policy, candidates=tuple(c for c in policy.candidates if c.name not in trained_names)
        )
    return Planner(policy=policy, may_pin=name in MOVES_OFTEN)


def measure_finishes(
    replay: Replay,
    sim: Simulator,
    plan: FinishPlan,
    planners: Mapping[str, Planner],
    set_share: Callable[[float], None] | None,
) -> FinishReport:
    """Play every chain under every planner, each in a copy of the same cluster.

    `sim` was built for the replay; it is changed. `set_share` is called with the share that is
    done, 0 to 1. Raises InputError if no chain's work was done before the log's last submission.
    """
    log = LogJobs.from_workload(replay.workload)
    at_most = int(replay.workload.submit.max())
    memory: WorldMemory | None = None
    if any(map(_needs_memory, planners.values())):
        jobs = {job.job_id: job for job in replay.workload.jobs}
        memory = WorldMemory(jobs, since=int(replay.workload.submit.min()) - 1)
    runs: dict[str, list[WorkRun]] = {name: [] for name in planners}
    span_s = plan.window.end - plan.window.begin
    for i in range(plan.chains):
        instant = plan.window.begin + i * span_s // plan.chains
        if memory is None:
            sim.advance_quietly(instant)
        else:
            memory.follow_world(sim, instant)
        for name, planner in planners.items():
            fork = sim.fork(with_results=True)
            own_memory = memory.fork() if memory is not None and _needs_memory(planner) else None
            runs[name].append(
                run_work(fork, plan.work, planner, log, at_most=at_most, memory=own_memory)
            )
        if set_share is not None:
            set_share((i + 1) / plan.chains)
    are_finished = [
        all(run.finished for run in chain) for chain in zip(*runs.values(), strict=True)
    ]
    if not any(are_finished):
        raise InputError(
            "no chain's work was done before the log's last submission: choose less --work"
        )
    finished_runs = {
        name: [run for run, is_finished in zip(chains, are_finished, strict=True) if is_finished]
        for name, chains in runs.items()
    }
    finished_runs[BOUND] = [
        _bound_run(run, plan.work) for run in next(iter(finished_runs.values()))
    ]
    return FinishReport(
        policies={name: _summarize(chains, plan.work) for name, chains in finished_runs.items()},
        chains=sum(are_finished),
        left_out=plan.chains - sum(are_finished),
    )


def _needs_memory(planner: Planner) -> bool:
    return planner.policy.needs != Needs()


def _bound_run(run: WorkRun, work: Work) -> WorkRun:
    """Return the fastest chain from the same first start on: each link starts as its predecessor
    ends.

    Links of other styles than sequential start up beside their predecessors. Only that time is
    idle.
    """
    links = count_links(work)
    first_start = run.first_start or run.submitted
    ran_s = work.work_s + links * work.startup_s
    startup_overlap_s = 0 if work.style is Style.SEQUENTIAL else (links - 1) * work.startup_s
    return WorkRun(
        submitted=run.submitted,
        first_start=first_start,
        finished=first_start + ran_s - startup_overlap_s,
        links=links,
        ran_s=ran_s,
        idle_s=startup_overlap_s,
    )


def _summarize(runs: Sequence[WorkRun], work: Work) -> FinishFigures:
    days = np.array([((run.finished or 0) - run.submitted) / DAY_S for run in runs])
    node_hours_per_s = work.link.nodes / HOUR_S
    return FinishFigures(
        days=float(days.mean()),
        days_p90=float(np.quantile(days, 0.9)),
        interrupted_h=float(np.mean([run.interrupted_s for run in runs])) / HOUR_S,
        node_hours=float(np.mean([run.ran_s for run in runs])) * node_hours_per_s,
        idle_node_hours=float(np.mean([run.idle_s for run in runs])) * node_hours_per_s,
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
        "style": plan.work.style.value,
        "most_returns": plan.work.most_returns,
        "from": plan.window.begin,
        "until": plan.window.end,
    }
