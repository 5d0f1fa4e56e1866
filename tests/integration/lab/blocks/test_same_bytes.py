"""Tables, the twin's answers and models that jobs of Slurm make: the bytes of those made here."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.config.settings import SlurmSettings
from mirage.lab.blocks.local_processes import IN_THIS_PROCESS
from mirage.lab.blocks.slurm_arrays import SlurmArrays
from mirage.lab.learning import week_tables
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.history_facts import WEEK_S, ReplayedWeek
from mirage.lab.learning.week_tables import EVERY_S
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables import twin_tables
from mirage.lab.training.trainers import FamilyName, TrainingRequest
from mirage.lab.training.training_blocks import TrainingMaker
from mirage.policies.models.artefact import CARD, GRAPH
from tests.support.blocks.fake_slurm import FakeSlurm
from tests.support.episodes import small
from tests.support.episodes.tables import MONDAY
from tests.support.learning.site_log import (
    CLUSTER,
    LONG_S,
    build_params,
    build_site_jobs,
    write_sacct,
)
from tests.support.mirage_process import run
from tests.support.training.queue_tables import queue_table


def build_executor(folder: Path) -> SlurmArrays:
    return SlurmArrays(SlurmSettings(folder=folder / "shared"), lambda _: None)


def sum_files(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_weeks_for_learning_and_the_twins_answers_beside_them(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    shape = ChainShape(partition="", nodes=2, time_limit_s=LONG_S)
    since = MONDAY + WEEK_S
    weeks = [ReplayedWeek(since, since + EVERY_S)]
    params = replace(build_params(), sched_interval_s=900, bf_interval_s=900)
    jobs = build_site_jobs(10, a_day=4)
    counted: list[int] = []
    for name, executor in (("here", IN_THIS_PROCESS), ("jobs", build_executor(tmp_path))):
        units = week_tables.list_units(tmp_path / name, params, weeks, [shape])
        week_tables.make_units(units, params, jobs, executor, counted.append)
    assert slurm.list_submitted() == [1]
    assert sum_files(tmp_path / "here") == sum_files(tmp_path / "jobs")
    assert sum_files(tmp_path / "jobs")
    assert sum(counted) == 2 * sum(len(unit) for unit in units)


def test_the_twins_answers_about_a_table(slurm: FakeSlurm, tmp_path: Path) -> None:
    # Few passes: nothing is compiled here.
    params, jobs = small.params(sched_interval_s=900, bf_interval_s=900), small.trace(1, jobs=30)
    settings = small.settings(time_limit_s=600, every_s=600, until=small.START_POINT + 7 * 600)
    table = small.build_episodes(params, jobs, settings)
    asked = twin_tables.build_request(table, params, jobs, samples=2)
    twin_tables.make_twin_table(asked, tmp_path / "here.npz")
    twin_tables.make_twin_table(asked, tmp_path / "jobs.npz", build_executor(tmp_path))
    assert slurm.list_submitted() == [2]
    assert (tmp_path / "here.npz").read_bytes() == (tmp_path / "jobs.npz").read_bytes()


def test_a_model_of_mirage_train(slurm: FakeSlurm, tmp_path: Path) -> None:
    queue_table(60).save(tmp_path / "E.npz")
    (tmp_path / "mirage.toml").write_text(f'[slurm]\nfolder = "{tmp_path}/shared"\n')
    words = ("train", "xgboost", "E.npz", "--folds", "1", "--config", "mirage.toml", "--json")
    more = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    here = run(*words, "--out", "models/here/1", cwd=tmp_path, environ=more)
    jobs = run(*words, "--out", "models/jobs/1", "--executor", "slurm", cwd=tmp_path, environ=more)
    assert (here.code, jobs.code) == (0, 0), here.err + jobs.err
    assert slurm.list_submitted() == [1]
    made = [tmp_path / "models" / name / "1" for name in ("here", "jobs")]
    assert len({(folder / GRAPH).read_bytes() for folder in made}) == 1
    cards = [json.loads((folder / CARD).read_text()) for folder in made]
    for card in cards:
        del card["wall_s"], card["judging_s"]
    assert cards[0] == cards[1]
    assert json.loads(jobs.out).keys() == json.loads(here.out).keys()
    assert list((tmp_path / "shared").iterdir()) == []


def run_both(folder: Path, *words: str) -> list[dict[str, Any]]:
    """Run a command here and by jobs, and return what each printed."""
    more = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    documents = []
    for name in ("local", "slurm"):
        answer = run(*words, "--json", "--executor", name, cwd=folder, environ=more)
        assert answer.code == 0, answer.err
        documents.append(json.loads(answer.out))
    return documents


def test_a_shadow_report_says_the_same(slurm: FakeSlurm, tmp_path: Path) -> None:
    write_sacct(tmp_path / "log.txt", build_site_jobs(12, a_day=12))
    (tmp_path / "C.toml").write_text(CLUSTER)
    (tmp_path / "mirage.toml").write_text(f'[slurm]\nfolder = "{tmp_path}/shared"\n')
    words = ("--from-sacct", "log.txt", "--cluster", "C.toml", "--config", "mirage.toml")
    window = ("--since", "2d", "--nodes", "2", "--time-limit", "2:00:00")
    here, jobs = run_both(tmp_path, "report", "shadow", *words, *window)
    assert here["groups"], "there is something to compare"
    assert here == jobs
    assert len(slurm.list_submitted()) == 2, "the table, and the twin's answers"


def test_a_training_that_ended_early_goes_on_from_its_stages(tmp_path: Path) -> None:
    stages: list[str] = []

    def train(request: TrainingRequest, _output: StudyOutput) -> None:
        out = request.out
        stages.extend(path.name for path in out.parent.glob(".*"))
        out.parent.mkdir(parents=True, exist_ok=True)
        (out.parent / f".{out.name}.stage").touch()
        if not stages:
            raise KeyboardInterrupt
        out.mkdir()

    out = tmp_path / "models" / "made" / "1"
    request = TrainingRequest(family=FamilyName.DQN, paths=[], out=out, find_models=Path)
    maker = TrainingMaker(train, {})
    with pytest.raises(KeyboardInterrupt):
        maker.make_block(tmp_path / "job" / "1", (request,))
    assert maker.make_block(tmp_path / "job" / "1", (request,)) == [tmp_path / "job" / "1"]
    assert stages == [".1.stage"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--executor", "slurm"), "slurm.folder in the configuration"),
        (("--gpus", "1"), "--gpus is for --executor slurm"),
    ],
)
def test_a_setting_that_is_missing_is_named_before_the_work(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    answer = run("train", "dqn", "E.npz", "--out", "models/made/1", *words, cwd=tmp_path)
    assert answer.code == 2
    assert said in answer.err
