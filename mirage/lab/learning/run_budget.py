"""Plans a run of learning within its budget of time and memory, by the measured pace of earlier
runs."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.lab.blocks.block_executor import BlockExecutor
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.learning.history_facts import ReplayedWeek, count_days
from mirage.lab.learning.week_tables import TableUnit
from mirage.lab.training.trainers import FamilyName
from mirage.lab.whole_files import write_whole
from mirage.observation import spec

FEWEST_DAYS = 14
"""Days of hand-overs from which models learn at least: a week to learn from, a week to be judged
on."""
ENOUGH_WEEKS = 13
"""With a quarter of a year, more families are worth more than more weeks."""
TREES = (FamilyName.XGBOOST, FamilyName.FOREST, FamilyName.ENSEMBLE)
"""In the order in which a short budget takes them."""
FINAL_TIMES = 2.0
"""The best family is fitted on four windows; to be judged, each is fitted on two."""
CANDIDATE_CARD_DAYS, FINAL_CARD_DAYS = 14, 42
"""The newest days on which cards are judged; at most half of the days. Judging a card takes longer
than a fit: 22 plays of each table, of all prices and rules."""
MOST_JUDGED_DAYS = 28
"""The newest days on which candidates are judged beside what decides today, at most."""
_TABLES, _JUDGE, _CARD, _MEMORY = "tables", "judged instant", "card's instant", "GiB"
_FIRST_PACES: Mapping[str, float] = {
    _TABLES: 2.0,
    _JUDGE: 0.0045,
    _CARD: 0.01,
    FamilyName.XGBOOST: 0.1,
    FamilyName.FOREST: 0.1,
    FamilyName.ENSEMBLE: 0.2,
    FamilyName.DQN: 3.0,
    FamilyName.POLICY_GRADIENT: 3.0,
}
"""Seconds of one core for each hand-over, until a run has measured its own: Lonestar6, pairs of 48
h, `mirage report shadow` and `mirage train` (docs/admin/report.md, docs/research/train.md). Of the
two judgements: for each judged instant, ten and 22 plays of 0.45 ms."""
_PROCESS, _TRAINING = "process", "training"
_FIRST_MEMORY: Mapping[str, float] = {_PROCESS: 0.5, _TRAINING: 1.0}
"""GiB of a process that makes tables, and of the one that trains, without its tables, until a run
has measured its own."""
_MARGIN = 0.9
"""The share of the budget that a plan fills."""
_COPIES = 4
"""How often the observations of a table are in memory at once while a model is fitted."""


@dataclass(slots=True)
class Paces:
    """What earlier runs took, by which this one is planned."""

    file: Path
    seconds: dict[str, float] = field(default_factory=lambda: dict(_FIRST_PACES))
    """Of one core, for each hand-over of a stage, or for each instant that it judges."""
    gib: dict[str, float] = field(default_factory=lambda: dict(_FIRST_MEMORY))
    """As _FIRST_MEMORY."""

    @classmethod
    def load(cls, file: Path) -> "Paces":
        """Load the measured paces. A file that cannot be read is as good as none."""
        paces = cls(file)
        try:
            measured = json.loads(file.read_text("utf-8"))
            paces.seconds |= {k: float(v) for k, v in measured.items() if k in _FIRST_PACES}
            gib = measured.get(_MEMORY, {})
            paces.gib |= {k: float(v) for k, v in gib.items() if k in _FIRST_MEMORY}
        except (OSError, ValueError, AttributeError, TypeError):
            pass
        return paces

    def measure(self, stage: str, wall_s: float, count: int, processes: int = 1) -> None:
        """Take in how long a stage took for `count` hand-overs or instants, and keep it for the
        next run."""
        if count > 0:
            self.seconds[stage] = max(1e-5, wall_s * processes / count)
            self._save()

    def _save(self) -> None:
        write_whole(self.file, json.dumps({**self.seconds, _MEMORY: self.gib}, indent=1))

    def measure_process(self, peak_gib: float) -> None:
        """Take in the most memory of a process that made tables."""
        self.gib[_PROCESS] = max(0.1, peak_gib)
        self._save()

    def measure_training(self, peak_gib: float, units: Sequence[TableUnit]) -> None:
        """Take in the most memory of the process that trained on these tables."""
        self.gib[_TRAINING] = max(0.1, peak_gib - _estimate_gib(units))
        self._save()

    def bound_executor(self, executor: BlockExecutor, budget: "Budget") -> BlockExecutor:
        """Return the executor, with no more processes of this machine than have memory."""
        return LocalProcesses(self.count_processes(budget)) if executor.is_local else executor

    def count_processes(self, budget: "Budget") -> int:
        """Count the processes that make tables: on this machine, as many as there is memory for
        beside this one."""
        if not budget.is_local:
            return budget.processes
        further_processes = budget.memory_gib / self.gib[_PROCESS] - 1
        return max(1, min(budget.processes, int(further_processes)))

    def estimate_tables_s(self, points: int, processes: int) -> float:
        return self.seconds[_TABLES] * points / max(1, processes)

    def estimate_training_s(
        self, families: Sequence[FamilyName], units: Sequence[TableUnit]
    ) -> float:
        """Estimate the fits of all families, that of the dearest one on all weeks, the judgements
        of their cards, and the one beside what decides today."""
        handovers = sum(len(unit.points) for unit in units)
        fits_s = sum(self.seconds[family] * handovers for family in families)
        cards_s = len(families) * self.seconds[_CARD] * _count_instants(units, CANDIDATE_CARD_DAYS)
        judged_s = self.seconds[_JUDGE] * _count_instants(units, MOST_JUDGED_DAYS)
        final_s = max(self.estimate_final_s(family, units) for family in families)
        return fits_s + cards_s + judged_s + final_s

    def estimate_final_s(self, family: FamilyName, units: Sequence[TableUnit]) -> float:
        """Estimate the fit of a family on all weeks, and the judgement of its card."""
        handovers = sum(len(unit.points) for unit in units)
        card_s = self.seconds[_CARD] * _count_instants(units, FINAL_CARD_DAYS)
        return FINAL_TIMES * self.seconds[family] * handovers + card_s

    def measure_tables(self, wall_s: float, points: int, processes: int) -> None:
        self.measure(_TABLES, wall_s, points, processes)

    def measure_judging(self, wall_s: float, instants: int) -> None:
        self.measure(_JUDGE, wall_s, instants)

    def measure_card(self, wall_s: float, instants: int) -> None:
        self.measure(_CARD, wall_s, instants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of a run."""

    wall_s: float
    memory_gib: float
    processes: int
    is_local: bool = True
    """Whether the processes are of this machine, and share `memory_gib`."""
    begun: float = field(default_factory=time.monotonic)
    """Since when time is spent, on the clock of `time.monotonic`: models are judged, kernels are
    compiled and the history is read before there is a plan."""

    @property
    def deadline(self) -> float:
        return self.begun + self.wall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The weeks and the families that a run takes, and about how long it will take."""

    units: tuple[TableUnit, ...]
    families: tuple[FamilyName, ...]
    tables_s: float
    training_s: float
    spent_s: float = 0.0
    """What the run had taken before there was a plan."""
    notes: tuple[str, ...] = ()

    @property
    def wall_s(self) -> float:
        return self.spent_s + self.tables_s + self.training_s

    @property
    def missing(self) -> list[TableUnit]:
        return [unit for unit in self.units if not unit.is_made]

    @property
    def weeks(self) -> list[ReplayedWeek]:
        return list(dict.fromkeys(unit.week for unit in self.units))

    def build_document(self) -> dict[str, Any]:
        return {
            "weeks": len(self.weeks),
            "handovers": sum(len(unit.points) for unit in self.units),
            "tables_to_make": len(self.missing),
            "families": list(self.families),
            "spent_s": round(self.spent_s),
            "tables_s": round(self.tables_s),
            "training_s": round(self.training_s),
            "notes": list(self.notes),
        }


def plan_run(
    units: Sequence[TableUnit],
    families: Sequence[FamilyName],
    paces: Paces,
    budget: Budget,
    spent_s: float = 0.0,
) -> RunPlan:
    """Choose the newest weeks and the families that fit what is left of the budget.

    `units` are in the order of weeks, newest first; `families` in the order in which they are
    wanted. Raises InputError if too few days fit, which says how much would do.
    """
    weeks = list(dict.fromkeys(unit.week for unit in units))
    by_memory = _count_fitting_weeks(weeks, units, budget.memory_gib - paces.gib[_TRAINING])
    plan = None
    for count in range(len(families), 0, -1):
        candidate_plan = _fill_budget(
            units, weeks[:by_memory], families[:count], paces, budget, spent_s
        )
        if candidate_plan is not None and (
            plan is None or len(candidate_plan.weeks) > len(plan.weeks)
        ):
            plan = candidate_plan
        if plan is not None and len(plan.weeks) >= min(by_memory, ENOUGH_WEEKS):
            break
    if plan is None:
        least = _list_least(units, weeks)
        needed_s = build_plan(least, families[:1], paces, budget, spent_s).wall_s
        raise InputError(
            f"{budget.wall_s / 3600:.1f} h are too short to learn from {FEWEST_DAYS} days: about "
            f"{needed_s / 3600 / _MARGIN:.1f} h are needed (learn.budget_h, --budget)"
        )
    return replace(plan, notes=tuple(_explain_left_out(plan, weeks, families)))


def _fill_budget(
    units: Sequence[TableUnit],
    weeks: Sequence[ReplayedWeek],
    families: Sequence[FamilyName],
    paces: Paces,
    budget: Budget,
    spent_s: float,
) -> RunPlan | None:
    """Take the newest weeks that fit; None if fewer than FEWEST_DAYS fit."""
    for count in range(len(weeks), 0, -1):
        if count_days(weeks[:count]) < FEWEST_DAYS:
            return None
        fitting_units = [unit for unit in units if unit.week in weeks[:count]]
        plan = build_plan(fitting_units, families, paces, budget, spent_s)
        if plan.wall_s <= _MARGIN * budget.wall_s:
            return plan
    return None


def build_plan(
    units: Sequence[TableUnit],
    families: Sequence[FamilyName],
    paces: Paces,
    budget: Budget,
    spent_s: float,
) -> RunPlan:
    """Build the plan that takes all these tables and families."""
    missing = sum(len(unit.points) for unit in units if not unit.is_made)
    return RunPlan(
        units=tuple(units),
        families=tuple(families),
        tables_s=paces.estimate_tables_s(missing, paces.count_processes(budget)),
        training_s=paces.estimate_training_s(families, units),
        spent_s=spent_s,
    )


def is_left_to_next_run(needed_s: float, *, left_s: float, made_s: float) -> bool:
    """Return whether a stage finds no time in this run but would in the next one, which need not
    repeat what took this one `made_s`. A run that can save nothing goes on: it would end nowhere.
    """
    return 0.0 < needed_s - left_s < made_s


def _count_instants(units: Sequence[TableUnit], days: int) -> float:
    """Count the instants of the hand-overs of the newest days, at most half of all."""
    counts = {unit: len(unit.points) * len(unit.settings.instant_s) for unit in units}
    since = max((unit.week.until for unit in units), default=0) - days * DAY_S
    newest = sum(count for unit, count in counts.items() if unit.week.since >= since)
    return min(newest, sum(counts.values()) / 2)


def _explain_left_out(
    plan: RunPlan, weeks: Sequence[ReplayedWeek], families: Sequence[FamilyName]
) -> Iterator[str]:
    """Say which of the weeks and of the families are not in the plan."""
    left = len(weeks) - len(plan.weeks)
    if left:
        yield (
            f"The {left} oldest weeks are left out: the budget of time and memory has no room for "
            "them."
        )
    dropped = [family for family in families if family not in plan.families]
    if dropped:
        yield f"The budget has no room to train {' and '.join(dropped)}."


def _count_fitting_weeks(
    weeks: Sequence[ReplayedWeek], units: Sequence[TableUnit], most_gib: float
) -> int:
    """Count the newest weeks whose tables fit into memory while a model is fitted."""
    used_gib = 0.0
    for count, week in enumerate(weeks):
        used_gib += _estimate_gib([unit for unit in units if unit.week == week])
        if used_gib > most_gib and count_days(weeks[:count]) >= FEWEST_DAYS:
            return count
    return len(weeks)


def _estimate_gib(units: Sequence[TableUnit]) -> float:
    """Estimate the memory of tables while a model is fitted."""
    instants = sum(len(unit.points) * len(unit.settings.instant_s) for unit in units)
    return instants * len(spec.FEATURE_NAMES) * 4 * _COPIES / 2**30


def _list_least(units: Sequence[TableUnit], weeks: Sequence[ReplayedWeek]) -> list[TableUnit]:
    """List the tables of the fewest weeks that have FEWEST_DAYS."""
    counts = (n for n in range(1, len(weeks) + 1) if count_days(weeks[:n]) >= FEWEST_DAYS)
    count = next(counts, len(weeks))
    return [unit for unit in units if unit.week in weeks[:count]]


def check_days(weeks: Sequence[ReplayedWeek], facts_days: int, time_limit_s: int) -> str | None:
    """Explain why these weeks are too few to learn from; None if they are enough."""
    days = count_days(weeks)
    if days >= FEWEST_DAYS:
        return None
    ends = 6 + 2 * time_limit_s / DAY_S
    return (
        f"There is too little history to learn from: {facts_days} days, of which {days} can be "
        f"replayed as whole weeks, and {FEWEST_DAYS} are needed. The first six days and the last "
        f"two time limits give none, so about {FEWEST_DAYS + 7 + ends:.0f} days without a gap are "
        "enough."
    )
