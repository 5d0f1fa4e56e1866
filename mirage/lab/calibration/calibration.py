"""Fits a cluster to a log: reads what the log shows, and searches for the other settings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.history.workloads.replay import LoggedOutcomes, Replay, recompute_cancelled_runs
from mirage.lab.calibration import inferred_cluster
from mirage.lab.calibration.inferred_cluster import HiddenChains, Levels
from mirage.lab.calibration.search_space import (
    SEARCH_SETTINGS,
    SearchSetting,
    SearchTrial,
    apply_search_values,
    get_search_values,
    list_search_settings,
)
from mirage.lab.simulation.fidelity import Fidelity, Window, choose_window, measure_fidelity
from mirage.lab.simulation.simulation import ProgressCallback
from mirage.simulator.packing.packed_params import list_partition_nodes
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

Score = Callable[[Mapping[str, int]], float]
"""Scores a number for each setting, by name: higher is better."""

_PER_LOG_HOUR = 0.2
"""The weight of the logarithm of the waits' mean difference, against their rank correlation. Chosen
by folds within Lonestar6's weeks before 2023-01-16 (docs/reference/simulate.md)."""
_TRIFLE_H = 0.01
_INNER = 0.8
"""Share of the fitting time on which settings are searched. The recipe is judged on the rest."""
_GOOD = 20
"""The number of best trials whose medians are taken."""
_MARGIN = 0.02
"""A score that is lower than the best by no more than this counts as equally good."""
_SWEEP = 7
"""The number of values of each setting, over its range, at which the score is computed."""
_LEAST_DAYS = 14
_UNSCORED = -10.0


class Search(Protocol):
    """The signature of `optuna_search.search_settings`. This module does not import Optuna."""

    def __call__(
        self,
        settings: Sequence[SearchSetting],
        score: Score,
        *,
        trials: int,
        seed: int,
        first: Mapping[str, int],
    ) -> list[SearchTrial]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """The plan of a calibration: the time to fit on, and the number of trials."""

    begin: int
    until: int
    """The calibration fits on [begin, until) and is judged on [until, end)."""
    end: int
    nodes: int | None = None
    """The most nodes that the cluster had; None: as many as were ever busy."""
    trials: int = 150
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts that are read from the log directly."""

    nodes: int
    levels: Levels
    max_jobs_pu: int
    chains: HiddenChains


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSetting:
    """One setting that was found by the search."""

    name: str
    value: int
    low: int
    high: int
    """The least and the most value with which a trial, or the result with only this setting
    changed, scored about as well. A range as wide as the searched one: the log does not tell."""
    drop: float
    """How much lower the score is at the worst value of the searched range, with all else kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    params: Params
    plan: CalibrationPlan
    seen: LogFacts
    """A name of `mirage calibrate --json`."""
    fitted: tuple[FittedSetting, ...]
    recipe: str
    """The recipe that scored best on the inner hold-out: `best` (the best trial), `middle` (the
    medians of the good trials) or `start` (the settings of the start)."""
    inner: dict[str, float | None]
    """The score of each recipe on the inner hold-out; None: it cannot be computed."""
    fitting: dict[str, Fidelity]
    """The fidelity of the start and of the calibrated file, on the weeks that were fitted on."""
    held_out: dict[str, Fidelity]
    """The fidelity of both on the weeks after."""


def build_default_plan(replay: Replay) -> CalibrationPlan:
    """Build a plan that fits on three quarters of what can be judged, and judges on the last."""
    window = choose_window(replay.workload.submit, replay.logged)
    cut = window.begin + (window.end - window.begin) * 3 // 4 // DAY_S * DAY_S
    return CalibrationPlan(begin=window.begin, until=cut, end=window.end)


def calibrate_params(
    replay: Replay,
    start: Params,
    plan: CalibrationPlan,
    search: Search,
    on_progress: ProgressCallback | None = None,
) -> Calibration:
    """Fit `start` to what the log shows of jobs that started before `plan.until`.

    The nodes of `start` stay, so that node types and partitions stay; fewer nodes are written as
    drains. Later jobs are replayed only to judge. `on_progress` is called with the share of the
    work that is done, 0 to 1. Raises InputError if there is too little to fit.
    """
    _check_plan(replay, plan)
    starts_before = _simulate_starts(start, replay.workload.jobs)
    facts = read_log_facts(replay, plan)
    bench = _choose_likelier_bench(
        replay, apply_log_facts(start, facts, replay.workload, plan.until), plan, on_progress
    )
    base, replay = bench.base, bench.replay
    recipe, inner = _choose_recipe(bench, search)
    params, trials = base, [bench.first_trial]
    if recipe != "start":
        trials = search(
            SEARCH_SETTINGS,
            bench.score_values,
            trials=plan.trials,
            seed=plan.seed,
            first=bench.values,
        )
        params = apply_search_values(base, _choose_values(recipe, trials, bench.score_values))
    starts_after = _simulate_starts(params, replay.workload.jobs)
    return Calibration(
        params=params,
        plan=plan,
        seen=facts,
        fitted=tuple(
            _build_fitted_setting(setting, params, trials, bench.score_values)
            for setting in list_search_settings(params)
        ),
        recipe=recipe,
        inner=inner,
        fitting=_compare_fidelity(
            replay, starts_before, starts_after, Window(begin=plan.begin, end=plan.until)
        ),
        held_out=_compare_fidelity(
            replay, starts_before, starts_after, Window(begin=plan.until, end=plan.end)
        ),
    )


def _choose_likelier_bench(
    replay: Replay, base: Params, plan: CalibrationPlan, on_progress: ProgressCallback | None
) -> "_Bench":
    """Return the bench whose replay is nearer to the log, before anything is searched for.

    In one of the two, jobs that were cancelled while they waited would have run
    (`cancelled_jobs_run`). If neither is nearer, they would not have run.
    """
    variants = [replace(base, cancelled_jobs_run=do_run) for do_run in (False, True)]
    benches = [
        _Bench(recompute_cancelled_runs(replay, variant), variant, plan, on_progress)
        for variant in variants
    ]
    return max(benches, key=lambda bench: bench.first_trial.score)


def read_log_facts(replay: Replay, plan: CalibrationPlan) -> LogFacts:
    """Return what can be read directly from the log about the time before `plan.until`."""
    jobs, logged = replay.workload.jobs, replay.logged
    submit = replay.workload.submit
    nodes = np.array([job.nodes for job in jobs], np.int64)
    names = {name: i for i, name in enumerate(sorted({job.user for job in jobs}))}
    users = np.array([names[job.user] for job in jobs], np.int64)
    levels = inferred_cluster.infer_node_levels(submit, nodes, users, logged, plan.until)
    started_nodes = nodes[(logged.start >= 0) & (logged.start < plan.until)]
    highest_level = max((level for _, level in levels), default=0)
    return LogFacts(
        nodes=plan.nodes or max(highest_level, int(started_nodes.max(initial=1))),
        levels=levels,
        max_jobs_pu=inferred_cluster.infer_running_limit(users, logged, plan.until),
        chains=inferred_cluster.find_hidden_chains(jobs, logged, plan.until),
    )


def apply_log_facts(start: Params, facts: LogFacts, workload: Workload, until: int) -> Params:
    """Return `start` with what the log showed before `until`."""
    nodes = _list_usable_nodes(start, workload.jobs)
    begin = min([int(workload.submit[0]), *(at for at, _ in facts.levels)])
    begin = min([begin, *(event.at for event in start.node_events)])
    levels = ((begin, facts.nodes), *facts.levels)
    return replace(
        _apply_running_limit(start, facts.max_jobs_pu),
        node_events=inferred_cluster.build_node_events(levels, nodes, start.node_events, until),
    )


def _list_usable_nodes(params: Params, jobs: Sequence[SimJob]) -> list[int]:
    """Return ascending numbers of the nodes on which jobs of the log may run.

    The log says nothing about other nodes.
    """
    used_partitions = {job.partition or params.partitions[0].name for job in jobs}
    node_lists = [
        list_partition_nodes(params, p) for p in params.partitions if p.name in used_partitions
    ]
    return sorted({node for nodes in node_lists for node in nodes})


def _apply_running_limit(params: Params, max_jobs_pu: int) -> Params:
    """Return the parameters with this limit, if any, on the running jobs of a user.

    If there are QOS, only their limits count. Jobs are in the first QOS unless the log names
    another one.
    """
    if not max_jobs_pu:
        return params
    if not params.qos:
        return replace(params, max_jobs_pu=max_jobs_pu)
    first, *others = params.qos
    return replace(params, qos=(replace(first, max_jobs_pu=max_jobs_pu), *others))


def score_fidelity(fidelity: Fidelity) -> float:
    """Return the score, which the search maximises.

    It is the rank correlation of waits, minus the weighted logarithm of their mean difference.
    """
    if fidelity.spearman is None or fidelity.wait_mae_h is None:
        return _UNSCORED
    return fidelity.spearman - _PER_LOG_HOUR * math.log(fidelity.wait_mae_h + _TRIFLE_H)


def _check_plan(replay: Replay, plan: CalibrationPlan) -> None:
    if not (replay.logged.start >= 0).any():
        raise InputError(
            "the log has no starts, so nothing can be fitted: use a log with start times"
        )
    if plan.until - plan.begin < _LEAST_DAYS * DAY_S:
        raise InputError(
            f"too little to fit: {_LEAST_DAYS} days are needed between the time from which the log "
            "is complete and --until: use a longer log, or a later --until"
        )


class _Bench:
    """Scores settings on the time before `plan.until`. It reads nothing of the log after that."""

    def __init__(
        self,
        replay: Replay,
        base: Params,
        plan: CalibrationPlan,
        on_progress: ProgressCallback | None,
    ) -> None:
        self.replay, self.base, self.plan = replay, base, plan
        rows = replay.workload.submit < plan.until
        self._jobs = [job for job, row in zip(replay.workload.jobs, rows, strict=True) if row]
        self._submit = replay.workload.submit[rows]
        start = replay.logged.start[rows]
        self._logged = LoggedOutcomes(
            eligible=replay.logged.eligible[rows],
            start=np.where(start < plan.until, start, -1),
            end=replay.logged.end[rows],
            suspect=replay.logged.suspect[rows],
        )
        self._starts_by_values: dict[tuple[int, ...], Ints] = {}
        self._on_progress, self._run_count = on_progress, 0
        self._expected_runs = 2 * plan.trials + _SWEEP * len(SEARCH_SETTINGS)
        inner = plan.begin + round((plan.until - plan.begin) * _INNER)
        self.early_window = Window(begin=plan.begin, end=inner)
        self.late_window = Window(begin=inner, end=plan.until)
        self.values = get_search_values(base)

    @property
    def first_trial(self) -> SearchTrial:
        return SearchTrial(values=self.values, score=self.score_values(self.values))

    def score_values(self, values: Mapping[str, int], window: Window | None = None) -> float:
        window = window or Window(begin=self.plan.begin, end=self.plan.until)
        return score_fidelity(
            measure_fidelity(self._submit, self._get_starts(values), self._logged, window)
        )

    def score_early_weeks(self, values: Mapping[str, int]) -> float:
        return self.score_values(values, self.early_window)

    def _get_starts(self, values: Mapping[str, int]) -> Ints:
        key = tuple(values[setting.name] for setting in SEARCH_SETTINGS)
        if key not in self._starts_by_values:
            self._starts_by_values[key] = _simulate_starts(
                apply_search_values(self.base, values), self._jobs
            )
        self._run_count += 1
        if self._on_progress is not None:
            self._on_progress(min(1.0, self._run_count / self._expected_runs))
        return self._starts_by_values[key]


def _choose_recipe(bench: _Bench, search: Search) -> tuple[str, dict[str, float | None]]:
    """Search on the early weeks, and score on the late weeks what each recipe makes of the search.

    Return the best recipe and the score of each. A search may fit the noise of its weeks. Then the
    late weeks prefer the medians of its good trials, or the settings of the start.
    """
    plan = bench.plan
    trials = search(
        SEARCH_SETTINGS,
        bench.score_early_weeks,
        trials=plan.trials,
        seed=plan.seed,
        first=bench.values,
    )
    values_by_recipe = {
        "middle": _compute_middle(trials),
        "best": _find_best_trial(trials).values,
        "start": bench.values,
    }
    scores = {
        name: bench.score_values(values, bench.late_window)
        for name, values in values_by_recipe.items()
    }
    return max(scores, key=lambda name: scores[name]), {
        name: None if score == _UNSCORED else score for name, score in scores.items()
    }


def _choose_values(recipe: str, trials: list[SearchTrial], score: Score) -> Mapping[str, int]:
    """Return the medians of the good trials if they score about as well as the best trial."""
    best, middle = _find_best_trial(trials), _compute_middle(trials)
    if recipe == "middle" and score(middle) >= best.score - _MARGIN:
        return middle
    return best.values


def _find_best_trial(trials: Sequence[SearchTrial]) -> SearchTrial:
    return max(trials, key=lambda trial: trial.score)


def _compute_middle(trials: Sequence[SearchTrial]) -> dict[str, int]:
    """Return the medians of the best trials' values, since the very best trial was lucky."""
    good = sorted(trials, key=lambda trial: -trial.score)[:_GOOD]
    return {
        setting.name: round(float(np.median([trial.values[setting.name] for trial in good])))
        for setting in SEARCH_SETTINGS
    }


def _build_fitted_setting(
    setting: SearchSetting, params: Params, trials: Sequence[SearchTrial], score: Score
) -> FittedSetting:
    values = get_search_values(params)
    best_score = score(values)
    score_by_value = {
        round(value): score({**values, setting.name: round(value)})
        for value in np.geomspace(setting.low, setting.high, _SWEEP)
    }
    good_values = [
        value for value, reached in score_by_value.items() if reached >= best_score - _MARGIN
    ]
    good_values += [
        trial.values[setting.name] for trial in trials if trial.score >= best_score - _MARGIN
    ]
    return FittedSetting(
        name=setting.name,
        value=values[setting.name],
        low=min(good_values, default=values[setting.name]),
        high=max(good_values, default=values[setting.name]),
        drop=max(0.0, best_score - min(score_by_value.values())),
    )


def _simulate_starts(params: Params, jobs: Sequence[SimJob]) -> Ints:
    sim = Simulator(params, Workload.from_jobs(params, jobs))
    sim.run_out()
    return sim.start


def _compare_fidelity(
    replay: Replay, starts_before: Ints, starts_after: Ints, window: Window
) -> dict[str, Fidelity]:
    submit, logged = replay.workload.submit, replay.logged
    return {
        "start": measure_fidelity(submit, starts_before, logged, window),
        "calibrated": measure_fidelity(submit, starts_after, logged, window),
    }
