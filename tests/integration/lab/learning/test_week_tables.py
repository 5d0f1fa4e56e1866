"""Tables of single weeks: they do not depend on what is stored later, and join to one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.learning import week_tables
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.history_facts import WEEK_S, ReplayedWeek
from mirage.lab.learning.week_tables import TableUnit
from mirage.lab.training.dataset import compute_known_at
from mirage.simulator.types import SimJob
from mirage.twin.table_forecasts import get_twin_path
from tests.support.episodes.tables import DAY_S, MONDAY
from tests.support.learning.site_log import LONG_S, build_params, build_site_jobs

SHAPE = ChainShape(partition="", nodes=2, time_limit_s=LONG_S)
FIRST, SECOND = (ReplayedWeek(MONDAY + n * WEEK_S, MONDAY + n * WEEK_S + 2 * DAY_S) for n in (1, 2))


@pytest.fixture(scope="module")
def jobs() -> list[SimJob]:
    return build_site_jobs(20, a_day=36)


def make(folder: Path, jobs: list[SimJob], *weeks: ReplayedWeek) -> list[TableUnit]:
    units = week_tables.list_units(folder, build_params(), weeks, [SHAPE])
    week_tables.make_units(units, build_params(), jobs, LocalProcesses(), lambda _: None)
    return units


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory, jobs: list[SimJob]) -> list[TableUnit]:
    return make(tmp_path_factory.mktemp("made"), jobs, SECOND, FIRST)


def test_the_same_week_is_the_same_file_whatever_comes_later(
    tmp_path: Path, units: list[TableUnit], jobs: list[SimJob]
) -> None:
    until = FIRST.until + 2 * LONG_S
    earlier = [job for job in jobs if job.submit < until]
    (again,) = make(tmp_path, earlier, FIRST)
    for name in (lambda path: path, get_twin_path):
        assert name(again.path).read_bytes() == name(units[1].path).read_bytes()


def test_what_is_made_is_not_made_again(units: list[TableUnit], jobs: list[SimJob]) -> None:
    counted: list[int] = []
    before = [unit.path.stat().st_mtime_ns for unit in units]
    week_tables.make_units(units, build_params(), jobs, LocalProcesses(), counted.append)
    assert counted == []
    assert [unit.path.stat().st_mtime_ns for unit in units] == before


def test_a_table_whose_twin_is_missing_is_kept_and_asked_about(
    tmp_path: Path, jobs: list[SimJob]
) -> None:
    (unit,) = make(tmp_path, jobs, FIRST)
    before = unit.path.stat().st_mtime_ns
    get_twin_path(unit.path).unlink()
    make(tmp_path, jobs, FIRST)
    assert unit.path.stat().st_mtime_ns == before
    assert get_twin_path(unit.path).exists()


def test_weeks_are_joined_oldest_first_with_the_twins_answers(units: list[TableUnit]) -> None:
    (table,) = week_tables.load_shape_tables(units).by_shape.values()
    parts = [EpisodeTable.load(unit.path) for unit in reversed(units)]
    assert (table.start_point == np.concatenate([p.start_point for p in parts])).all()
    assert (table.metadata.since, table.metadata.until) == (FIRST.since, SECOND.until)
    assert table.twins is not None
    assert table.twins.pair == table.metadata.pair
    assert len(table.twins.quantile_s) == len(table)


def test_what_is_learned_from_was_known_before_what_is_judged(
    units: list[TableUnit], tmp_path: Path
) -> None:
    (table,) = week_tables.load_shape_tables(units).by_shape.values()
    cut = int(table.start_point[len(table) - 3])
    past, later = week_tables.split_newest(table, cut)
    assert (compute_known_at(past) <= cut).all()
    assert later.start_point.tolist() == table.start_point[-3:].tolist()
    assert (past.metadata.until, later.metadata.since) == (cut, cut)
    week_tables.save_with_twin(later, tmp_path / "later.npz")
    loaded = EpisodeTable.load(tmp_path / "later.npz")
    assert loaded.twins is not None
    assert (loaded.outcome_s == table.outcome_s[-3:]).all()
    for i in range(3):
        whole, part = table.get_started_jobs(len(table) - 3 + i), loaded.get_started_jobs(i)
        assert (whole.at == part.at).all()


def test_hand_overs_that_outlast_the_replayed_jobs_are_left_out(
    tmp_path: Path, jobs: list[SimJob]
) -> None:
    """Of a week at whose end so many jobs wait that the successors start among no later ones."""
    crowd = [
        replace(
            jobs[0],
            job_id=10**6 + n,
            submit=FIRST.until - DAY_S,
            nodes=8,
            time_limit_s=LONG_S,
            run_s=LONG_S,
        )
        for n in range(24)
    ]
    crowded = sorted([*jobs, *crowd], key=lambda job: job.submit)
    (unit,) = make(tmp_path, crowded, FIRST)
    whole = EpisodeTable.load(unit.path)
    is_finished = compute_known_at(whole) <= FIRST.until + 2 * LONG_S
    assert 0 < is_finished.sum() < len(whole)
    loaded = week_tables.load_shape_tables([unit])
    (table,) = loaded.by_shape.values()
    assert table.start_point.tolist() == whole.start_point[is_finished].tolist()
    assert loaded.unfinished == len(whole) - len(table)
    assert whole.metadata.beyond_trace > 0
    assert table.metadata.beyond_trace == 0
    assert table.twins is not None
    assert len(table.twins.quantile_s) == len(table)


def test_own_hand_overs_are_replayed_where_they_began(tmp_path: Path, jobs: list[SimJob]) -> None:
    starts = [FIRST.since + 5000, FIRST.since + 90_000, SECOND.until]
    own = week_tables.list_own_units(tmp_path, build_params(), [FIRST], {SHAPE: starts})
    week_tables.make_units(own, build_params(), jobs, LocalProcesses(), lambda _: None)
    table = EpisodeTable.load(own[0].path)
    assert table.start_point.tolist() == starts[:2]
    assert table.twins is not None


def test_old_weeks_and_other_cluster_files_go(tmp_path: Path, jobs: list[SimJob]) -> None:
    units = make(tmp_path, jobs, FIRST)
    other = tmp_path / "tables" / "of-another-cluster-file" / SHAPE.folder
    other.mkdir(parents=True)
    old = units[0].path.with_name("2020-W01.npz")
    old.write_bytes(b"")
    week_tables.remove_old_tables(tmp_path, units)
    assert not other.exists()
    assert not old.exists()
    assert units[0].is_made


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, jobs: list[SimJob]) -> None:
    (tmp_path / "tables").write_text("")
    with pytest.raises(InputError, match="cannot be created"):
        make(tmp_path, jobs, FIRST)
