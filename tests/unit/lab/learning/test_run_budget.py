"""What a run takes so that it keeps its budget."""

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.lab.learning import run_budget, week_tables
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.history_facts import ReplayedWeek
from mirage.lab.learning.run_budget import (
    TREES,
    Budget,
    Paces,
    RunPlan,
    check_days,
    is_left_to_next_run,
    plan_run,
)
from mirage.lab.learning.week_tables import TableUnit
from mirage.simulator.types import Params
from tests.support.episodes.tables import DAY_S, HOUR_S, MONDAY

SHAPE = ChainShape(partition="", nodes=1, time_limit_s=2 * HOUR_S)
WEEK_S = 7 * DAY_S
POINTS = 28


def list_units(folder: Path, weeks: int) -> list[TableUnit]:
    newest_first = [
        ReplayedWeek(MONDAY + n * WEEK_S, MONDAY + (n + 1) * WEEK_S) for n in range(weeks)
    ][::-1]
    return week_tables.list_units(folder, Params(), newest_first, [SHAPE])


def planned(
    folder: Path,
    hours: float,
    weeks: int = 20,
    memory_gib: float = 4.0,
    card: float = 0.0,
    spent_s: float = 0.0,
) -> RunPlan:
    paces = Paces(folder / "pace.json")
    paces.seconds |= dict.fromkeys(TREES, 1.0) | {
        "tables": 10.0,
        "judged instant": 0.0,
        "card's instant": card,
    }
    budget = Budget(wall_s=hours * 3600, memory_gib=memory_gib, processes=1)
    return plan_run(list_units(folder, weeks), TREES, paces, budget, spent_s)


def test_with_time_enough_all_weeks_and_families_are_taken(tmp_path: Path) -> None:
    plan = planned(tmp_path, 24)
    assert (len(plan.weeks), plan.families, plan.notes) == (20, TREES, ())
    assert plan.tables_s == 20 * POINTS * 10.0


def test_the_newest_weeks_are_taken_first_and_it_is_said(tmp_path: Path) -> None:
    # A week costs 28 x (10 + 3 families + 2 for the best) s, and a tenth of the budget is kept.
    plan = planned(tmp_path, 14 * POINTS * 15 / 3600 / 0.9 + 0.001)
    assert len(plan.weeks) == 14
    assert plan.weeks[0].since == MONDAY + 19 * WEEK_S
    assert plan.families == TREES
    assert "The 6 oldest weeks are left out" in plan.notes[0]


def test_judging_the_cards_counts_the_newest_weeks_alone(tmp_path: Path) -> None:
    """Two weeks for each of three candidates, and six for the one that is put forward."""
    instants = POINTS * len(list_units(tmp_path, 1)[0].settings.instant_s)
    fits = planned(tmp_path, 24, 40).training_s
    assert planned(tmp_path, 24, 40, card=0.01).training_s == pytest.approx(
        fits + 0.01 * (3 * 2 + 6) * instants
    )
    halves = planned(tmp_path, 24, 2, card=0.01).training_s - planned(tmp_path, 24, 2).training_s
    assert halves == pytest.approx(0.01 * (3 + 1) * instants), "half of the weeks at most"


def test_a_short_budget_takes_more_weeks_of_fewer_families(tmp_path: Path) -> None:
    plan = planned(tmp_path, 13 * POINTS * 13 / 3600 / 0.9 + 0.001)
    assert (len(plan.weeks), plan.families) == (13, TREES[:1])
    assert any("no room to train forest and ensemble" in note for note in plan.notes)


def test_families_that_nobody_wants_are_not_said_to_have_no_room(tmp_path: Path) -> None:
    budget = Budget(wall_s=1e6, memory_gib=4, processes=1)
    units = list_units(tmp_path, 3)
    assert plan_run(units, TREES[:1], Paces(tmp_path / "pace.json"), budget).notes == ()


def test_finished_tables_cost_nothing_more(tmp_path: Path) -> None:
    short = 14 * POINTS * 15 / 3600 / 0.9 + 0.001
    for unit in list_units(tmp_path, 20):
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.with_suffix(".none").touch()
    plan = planned(tmp_path, short)
    assert (len(plan.weeks), plan.missing, plan.tables_s) == (20, [], 0.0)


def test_a_budget_that_is_too_short_says_how_much_would_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"too short to learn from 14 days: about 0\.2 h"):
        planned(tmp_path, 0.01)
    assert len(planned(tmp_path, 0.25).weeks) == 2


def test_memory_leaves_out_the_oldest_weeks(tmp_path: Path) -> None:
    unit = list_units(tmp_path, 1)[0]
    a_week_gib = run_budget._estimate_gib([unit])
    assert len(planned(tmp_path, 24, memory_gib=1.0 + 5.5 * a_week_gib).weeks) == 5


def test_what_was_spent_before_the_plan_is_no_longer_there(tmp_path: Path) -> None:
    hours = 14 * POINTS * 15 / 3600 / 0.9 + 0.001
    plan = planned(tmp_path, hours + 0.2, spent_s=0.2 * 3600 * 0.9)
    assert (len(plan.weeks), plan.families) == (14, TREES)
    assert plan.wall_s == pytest.approx(plan.spent_s + plan.tables_s + plan.training_s)
    assert len(planned(tmp_path, hours, spent_s=0.5 * 3600).weeks) < 14
    with pytest.raises(InputError, match=r"too short to learn from 14 days: about 1\.3 h"):
        planned(tmp_path, 0.25, spent_s=3600)


def test_there_are_as_many_processes_as_memory_has_room_for(tmp_path: Path) -> None:
    paces = Paces(tmp_path / "pace.json")
    budget = Budget(wall_s=1, memory_gib=4, processes=16)
    assert paces.count_processes(budget) == 7
    assert paces.count_processes(replace(budget, processes=2)) == 2
    paces.measure_process(1.5)
    assert Paces.load(paces.file).count_processes(budget) == 1
    paces.measure_process(8.0)
    assert paces.count_processes(budget) == 1


def test_a_training_that_took_more_memory_leaves_fewer_weeks_to_the_next_run(
    tmp_path: Path,
) -> None:
    units = list_units(tmp_path, 20)
    a_week_gib = run_budget._estimate_gib(units[:1])
    paces = Paces(tmp_path / "pace.json")
    budget = Budget(wall_s=1e6, memory_gib=2.0 + 7.5 * a_week_gib, processes=1)
    assert len(plan_run(units, TREES, paces, budget).weeks) == 20
    paces.measure_training(2.0 + 20 * a_week_gib, units)
    assert len(plan_run(units, TREES, Paces.load(paces.file), budget).weeks) == 7


def test_a_stage_without_time_is_left_to_a_run_that_has_it_and_to_no_other() -> None:
    assert not is_left_to_next_run(10, left_s=10, made_s=99)
    assert is_left_to_next_run(10, left_s=-5, made_s=16)
    assert not is_left_to_next_run(10, left_s=-5, made_s=14), "the next run would end here too"


def test_measured_paces_are_those_of_the_next_run(tmp_path: Path) -> None:
    Paces.load(tmp_path / "pace.json").measure_tables(100.0, 50, processes=2)
    assert Paces.load(tmp_path / "pace.json").estimate_tables_s(10, 1) == 40.0
    (tmp_path / "pace.json").write_text("[1]")
    assert (
        Paces.load(tmp_path / "pace.json").estimate_tables_s(1, 1)
        == Paces(tmp_path).seconds["tables"]
    )


def test_too_few_days_are_told_with_what_would_be_enough() -> None:
    week = ReplayedWeek(MONDAY, MONDAY + WEEK_S)
    why = check_days([week], 21, 2 * DAY_S)
    assert why is not None
    assert "21 days, of which 7 can be replayed" in why
    assert "about 31 days" in why
    assert check_days([week, ReplayedWeek(week.until, week.until + WEEK_S)], 40, 1) is None
