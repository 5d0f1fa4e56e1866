"""The twin's answers beside a table: kept, found again, and never taken for another table's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.twin import table_forecasts
from mirage.twin.table_forecasts import TwinForecasts
from mirage.twin.twin_features import LEVELS
from tests.support.training.queue_tables import queue_table


def answers(table: EpisodeTable, every: int = 3) -> TwinForecasts:
    asked = -(-(table.outcome_s.shape[1] - 1) // every)
    shape = (len(table), asked, len(LEVELS))
    numbers = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    return TwinForecasts(table.metadata.pair, table.start_point, every, numbers)


def saved(folder: Path) -> tuple[Path, EpisodeTable, TwinForecasts]:
    table = queue_table(8)
    path = folder / "e.npz"
    table.save(path)
    made = answers(table)
    made.save(table_forecasts.get_twin_path(path))
    return path, table, made


def test_a_table_has_the_answers_that_lie_beside_it(tmp_path: Path) -> None:
    path, _, made = saved(tmp_path)
    found = EpisodeTable.load(path).twins
    assert found is not None
    assert (found.every, found.pair) == (made.every, made.pair)
    assert np.array_equal(found.quantile_s, made.quantile_s)


def test_between_two_questions_the_last_answer_stands(tmp_path: Path) -> None:
    _, _, made = saved(tmp_path)
    assert [int(made.get_forecast(1, k)[0]) for k in (0, 2, 3)] == [
        int(made.quantile_s[1, a, 0]) for a in (0, 0, 1)
    ]
    assert np.array_equal(made.get_forecasts(np.array([2, 3]))[1], made.quantile_s[1, [0, 1]])


def test_at_the_runs_end_the_last_answer_stands(tmp_path: Path) -> None:
    _, table, made = saved(tmp_path)
    end = table.outcome_s.shape[1] - 1
    assert end // made.every == made.quantile_s.shape[1]
    assert np.array_equal(made.get_forecasts(np.array([end]))[:, 0], made.quantile_s[:, -1])


@pytest.mark.parametrize("what", ["another cluster", "other start points"])
def test_answers_of_another_table_are_not_taken(tmp_path: Path, what: str) -> None:
    path, table, made = saved(tmp_path)
    if what == "another cluster":
        other = replace(made, pair="f" * 64)
    else:
        other = replace(made, start_point=table.start_point + 1)
    other.save(table_forecasts.get_twin_path(path))
    assert EpisodeTable.load(path).twins is None


@pytest.mark.parametrize(("run", "taken"), [(True, True), (False, False)])
def test_a_table_from_before_the_rule_of_cancelled_jobs_is_one_where_they_ran(
    tmp_path: Path, run: bool, taken: bool
) -> None:
    table, path = queue_table(8), tmp_path / "e.npz"
    before = table.metadata
    cluster = {k: v for k, v in before.cluster.items() if k != "cancelled_jobs_run"}
    table.metadata = replace(before, cluster=cluster)
    table.save(path)
    answers(table).save(table_forecasts.get_twin_path(path))
    found = EpisodeTable.load(path)
    assert found.metadata.cluster["cancelled_jobs_run"]
    assert found.twins is not None
    table.metadata = replace(before, cluster=cluster | {"cancelled_jobs_run": run})
    table.save(path)
    assert (EpisodeTable.load(path).twins is not None) == taken


def test_damaged_answers_are_refused(tmp_path: Path) -> None:
    path, _, _ = saved(tmp_path)
    file = table_forecasts.get_twin_path(path)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read as the twin's forecasts: delete it"):
        EpisodeTable.load(path)


def test_a_day_of_instants_is_asked_no_more_than_48_times() -> None:
    for instants in (1, 47, 48, 49, 72, 144, 288, 1000):
        every = table_forecasts.compute_question_step(instants)
        assert -(-instants // every) <= table_forecasts.QUESTIONS_PER_RUN
        assert every == 1 or -(-instants // (every - 1)) > table_forecasts.QUESTIONS_PER_RUN
