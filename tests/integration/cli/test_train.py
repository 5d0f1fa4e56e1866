"""`mirage train`, `mirage models` and `mirage evaluate` of what they make, as processes."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.models.artefact import CARD, GRAPH
from tests.support.episodes.tables import DAY_S, MONDAY, table
from tests.support.mirage_process import Answer, environment, run
from tests.support.paths import CHECKOUT
from tests.support.training.queue_tables import EPISODES, at_load, queue_table, shorten

LATER = MONDAY + EPISODES * 4 * 3600 + 86400


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a model was trained and promoted."""
    folder = tmp_path_factory.mktemp("home")
    queue_table().save(folder / "E.npz")
    queue_table(40, seed=4, first=LATER).save(folder / "later.npz")
    answer = trained(folder, "models/made/1")
    assert answer.code == 0, answer.err
    return folder


def trained(home: Path, out: str, *more: str) -> Answer:
    return run("train", "xgboost", "E.npz", "--out", out, "--folds", "1", "--json", *more, cwd=home)


def refused(home: Path, *words: str) -> str:
    """The one sentence with which exit code 2 is explained."""
    answer = run(*words, cwd=home)
    assert (answer.code, answer.out) == (2, ""), answer
    (line,) = answer.err.strip().splitlines()
    return line


def test_what_was_trained_is_judged(home: Path) -> None:
    words = ("--policy", "models/made/1", "at-once", "--no-guard", "--json", "-")
    answer = run("evaluate", "later.npz", *words, cwd=home)
    assert answer.code == 0, answer.err
    policies = json.loads(answer.out)["policies"]
    assert list(policies) == ["reactive", "average", "oracle", "models/made/1", "at-once"]
    assert policies["models/made/1"]["all"]["gap_closed"] > 0.5


def test_its_card_says_where_it_comes_from(home: Path) -> None:
    answer = run("models", "show", "models/made/1", "--json", cwd=home)
    card = json.loads(answer.out)
    assert card["family"] == "xgboost"
    assert card["trained_on"][0]["episodes"] == EPISODES
    assert max(card["parity"].values()) < 1e-5
    assert {"numpy", "onnx", "python"} <= set(card["versions"])
    assert card["metrics"]["policies"]["xgboost"]["all"]["episodes"] == EPISODES / 2
    shown = run("models", "show", "models/made/1", cwd=home)
    assert shown.code == 0
    assert "made.parquet 1 node(s) 2023-11-20" in shown.out


def test_a_version_is_promoted_over_another_only_where_it_costs_less(home: Path) -> None:
    assert "promoted" in refused(home, "evaluate", "later.npz", "--policy", "models/made")
    assert "twin or quantile decides now" in refused(home, "models", "promote", "models/made/1")
    first = run("models", "promote", "models/made/1", "--force", cwd=home)
    assert (first.code, first.out.strip()) == (0, "models/made/1 is in use")
    second = trained(home, "models/made/2", "--seed", "0")
    assert second.code == 0, second.err
    assert "give episode tables" in refused(home, "models", "promote", "models/made/2")
    assert "was trained on" in refused(home, "models", "promote", "models/made/2", "E.npz")
    same = run("models", "promote", "models/made/2", "later.npz", cwd=home)
    assert same.code == 1
    assert "stays in use" in same.err
    assert promoted(home).items() >= {"models/made/1": True, "models/made/2": False}.items()
    forced = run("models", "promote", "models/made/2", "--force", cwd=home)
    assert forced.code == 0
    assert promoted(home).items() >= {"models/made/1": False, "models/made/2": True}.items()


def test_a_model_is_adjusted_to_newer_weeks_and_compared_like_any_other(
    home: Path, tmp_path: Path
) -> None:
    busier = tmp_path / "busier.npz"
    queue_table(60, seed=6, first=LATER, load_until=12.0).save(busier)
    words = ("models", "recalibrate", "models/made/1")
    assert "was trained on" in refused(home, *words, "E.npz", "--out", "models/made/7")
    made = run(*words, str(busier), "--out", "models/made/7", cwd=home)
    assert made.code == 0, made.err
    before, after = (
        json.loads((home / "models" / "made" / version / CARD).read_text()) for version in "17"
    )
    assert after["forecast"]["shift"] != before["forecast"]["shift"]
    # The graph, and with it each forecast, is the same.
    assert {**after, "forecast": 0} == {**before, "forecast": 0}
    assert "already exists" in refused(home, *words, str(busier), "--out", "models/made/7")
    assert run("models", "promote", "models/made/1", "--force", cwd=home).code == 0
    # Its releases go by the forecast, so they are not those of before.
    assert "give episode tables of newer days" in refused(
        home, "models", "promote", "models/made/7"
    )


def test_figures_on_weeks_that_a_model_has_learned_from_are_told_as_such(home: Path) -> None:
    words = ("--policy", "models/made/1", "--json", "-")
    assert (
        "models/made/1 was trained on weeks of E.npz"
        in run(*("evaluate", "E.npz"), *words, cwd=home).err
    )
    assert "was trained on" not in run(*("evaluate", "later.npz"), *words, cwd=home).err
    run("models", "promote", "models/made/1", "--force", cwd=home)
    auto = run("evaluate", "E.npz", "--policy", "auto", "--json", "-", cwd=home)
    assert "auto does without it" in auto.err
    chosen = json.loads(auto.out)["policies"]["auto"]["all"]["auto_chosen"]
    assert not any(name.startswith("models/") for name in chosen)


@pytest.mark.parametrize("beyond", [24, 25])
def test_outcomes_of_a_queue_that_only_drained_are_told(tmp_path: Path, beyond: int) -> None:
    made = queue_table(100)
    assert made.outcome_s.size == 2500
    metadata = replace(made.metadata, beyond_trace=beyond)
    EpisodeTable(metadata, made._columns).save(tmp_path / "E.npz")
    words = {
        "evaluate": ("E.npz", "--policy", "reactive"),
        "train": ("xgboost", "E.npz", "--out", "models/made/1", "--folds", "1"),
    }
    for command, given in words.items():
        answer = run(command, *given, cwd=tmp_path)
        assert answer.code == 0, answer.err
        said = "E.npz: in 1% of the decision instants" in answer.err
        assert said is (beyond == 25), command


def test_nobody_could_have_had_a_model_of_later_weeks(home: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.npz"
    queue_table(60, seed=6, first=MONDAY - 28 * DAY_S).save(earlier)
    run("models", "promote", "models/made/1", "--force", cwd=home)
    auto = run("evaluate", str(earlier), "--policy", "auto", "--json", "-", cwd=home)
    assert "earlier.npz, or later: auto does without it" in auto.err
    chosen = json.loads(auto.out)["policies"]["auto"]["all"]["auto_chosen"]
    assert not any(name.startswith("models/") for name in chosen)


def promoted(home: Path) -> dict[str, bool]:
    answer = run("models", "list", "--json", cwd=home)
    return {line["model"]: line["promoted"] for line in json.loads(answer.out)["models"]}


WITHOUT_EXTRAS = """
import sys
from mirage.__main__ import main
sys.modules["sklearn"] = sys.modules["xgboost"] = sys.modules["onnxmltools"] = None
sys.argv[0] = "mirage"
main()
"""


@pytest.mark.parametrize(
    "words",
    [
        ("train", "forest", "E.npz", "--out", "models/made/9"),
        ("models", "recalibrate", "models/made/1", "later.npz", "--out", "models/made/9"),
    ],
    ids=["train", "recalibrate"],
)
def test_what_needs_more_packages_says_which(home: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *words],
        cwd=home,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'mirage-provisioner[trees]'" in done.stderr
    assert "Traceback" not in done.stderr


WITHOUT_AGENTS = """
import sys
from mirage.__main__ import main
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "gymnasium", "stable_baselines3"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.argv[0] = "mirage"
main()
"""


def run_without_agents(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_AGENTS, *words],
        cwd=home,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("family", ["forest", "ensemble"])
def test_trees_are_trained_without_what_only_agents_need(home: Path, family: str) -> None:
    queue_table(60).save(home / "brief.npz")
    words = ("train", family, "brief.npz", "--out", f"models/{family}/1", "--folds", "1")
    done = run_without_agents(home, *words)
    assert done.returncode == 0, done.stderr
    card = json.loads((home / "models" / family / "1" / CARD).read_text())
    assert card["family"] == family


def test_an_agent_without_its_packages_names_the_larger_extra(home: Path) -> None:
    done = run_without_agents(home, "train", "dqn", "E.npz", "--out", "models/made/9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'mirage-provisioner[train]'" in done.stderr


@pytest.mark.parametrize("instants", [25, 10], ids=["4 h", "90 min"])
def test_the_figures_of_a_card_are_those_of_evaluate_on_the_same_hand_overs(
    tmp_path: Path, instants: int
) -> None:
    """One judge: what was known before a window makes the same model when it is all that there is.
    Its figures in the window are then those of `mirage evaluate` to the last digit."""
    made = shorten(queue_table(112), instants)
    half = made.select_episodes(np.arange(56, 112))
    known_at = made.predecessor_end + np.maximum(made.outcome_s.max(axis=1), 0)
    past = made.select_episodes(np.flatnonzero(known_at <= half.start_point[0]))
    for name, table_of in (("whole", made), ("past", past), ("half", half)):
        table_of.save(tmp_path / f"{name}.npz")
    for name in ("whole", "past"):
        words = ("--folds", "1", "--out", f"models/{name}/1", "--json")
        answer = run("train", "xgboost", f"{name}.npz", *words, cwd=tmp_path)
        assert answer.code == 0, answer.err
    rules = ("quantile", "slurm-estimate", "fixed-lead")
    asked = ("half.npz", "--policy", "models/past/1", *rules, "--json", "-")
    evaluated = json.loads(run("evaluate", *asked, cwd=tmp_path).out)
    card = json.loads((tmp_path / "models" / "whole" / "1" / CARD).read_text())
    metrics = card["metrics"]
    assert metrics["policies"]["xgboost"] == evaluated["policies"]["models/past/1"]
    for name in ("reactive", "oracle", *rules):
        assert metrics["policies"][name] == evaluated["policies"][name]
    for name in ("overlap_price", "most_returns", "guarded"):
        assert metrics[name] == evaluated[name]


def test_links_that_are_too_short_to_learn_much_from_are_told(tmp_path: Path) -> None:
    shorten(queue_table(60), 10).save(tmp_path / "short.npz")
    words = ("xgboost", "short.npz", "--folds", "1", "--out", "models/short/1")
    answer = run("train", *words, cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "links of 90 min have 9 instants at which a release is decided" in answer.err
    card = json.loads((tmp_path / "models" / "short" / "1" / CARD).read_text())
    assert card["every"] == 1


def test_the_list_tells_of_a_card_that_does_not_read(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "models" / "broken" / "1"
    broken.mkdir(parents=True)
    (broken / CARD).write_text("{")
    answer = run("models", "list", cwd=tmp_path)
    assert answer.code == 0
    assert "is not valid JSON" in answer.out
    made = json.loads((home / "models" / "made" / "1" / CARD).read_text())
    (broken / CARD).write_text(json.dumps(made | {"trained_on": [{}]}))
    answer = run("models", "list", "--json", cwd=tmp_path)
    assert "does not tell what it was trained on" in answer.out
    shutil.copytree(home / "models" / "made" / "1", tmp_path / "models" / "odd" / "1")
    (tmp_path / "models" / "odd" / "1" / CARD).write_text(json.dumps(made | {"metrics": None}))
    assert "how it was judged" in refused(tmp_path, "models", "show", "models/odd/1")


def test_decisions_of_a_rule_that_stood_in_are_told(home: Path, tmp_path: Path) -> None:
    """Their figures would pass for the model's."""
    made = queue_table(6, seed=4, first=LATER)
    wide = replace(made.metadata, nodes=64)
    columns = {name: made._columns[name] for name in made._columns}
    EpisodeTable(wide, columns).save(tmp_path / "wide.npz")
    words = ("evaluate", str(tmp_path / "wide.npz"), "--policy", "models/made/1", "--json", "-")
    answer = run(*words, cwd=home)
    assert answer.code == 0, answer.err
    assert "decisions of models/made/1 came from its fall-back" in answer.err
    assert "not 64" in answer.err


def test_a_truncated_model_is_not_judged(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models" / "made" / "1"
    copy.mkdir(parents=True)
    for name in (CARD, GRAPH):
        (copy / name).write_bytes((home / "models" / "made" / "1" / name).read_bytes())
    os.truncate(copy / GRAPH, 1000)
    listed = json.loads(run("models", "list", "--json", cwd=tmp_path).out)["models"]
    assert "is not the file" in listed[0]["fault"]
    words = ("evaluate", str(home / "later.npz"), "--policy", "models/made/1")
    assert "is not the file" in refused(tmp_path, *words)


def test_bad_input_is_told_in_one_sentence(home: Path) -> None:
    table([[-0.2, 0.5, 1.0]] * 3).save(home / "other.npz")
    queue_table(6).save(home / "few.npz")
    to = ("--out", "models/made/9")
    assert "no such file" in refused(home, "train", "forest", "nowhere.npz", *to)
    assert "other features" in refused(home, "train", "forest", "other.npz", *to)
    assert "too few episodes" in refused(home, "train", "forest", "few.npz", *to)
    assert "already exists" in refused(home, "train", "forest", "E.npz", "--out", "models/made/1")
    assert "models/NAME/VERSION" in refused(home, "train", "forest", "E.npz", "--out", "here")
    assert not (home / "models" / "made" / "9").exists()
    words = ("evaluate", "other.npz", "--policy", "models/made/1")
    assert "other features" in refused(home, *words)


def test_other_loads_are_learned_from_and_nothing_else(home: Path) -> None:
    at_load(queue_table(60, seed=8), 0.8).save(home / "light.npz")
    at_load(queue_table(60, seed=9, first=LATER), 1.2).save(home / "heavy.npz")
    out = ("--out", "models/loads/1", "--folds", "1")
    assert "judged at the logged load" in refused(home, "train", "xgboost", "light.npz", *out)
    wide = at_load(queue_table(60, seed=8), 0.8)
    wide.metadata = replace(wide.metadata, nodes=8)
    wide.save(home / "wide.npz")
    assert "wide.npz was simulated at 0.8 times" in refused(
        home, "train", "xgboost", "E.npz", "wide.npz", *out
    )
    answer = run("train", "xgboost", "E.npz", "light.npz", *out, cwd=home)
    assert answer.code == 0, answer.err
    card = json.loads((home / "models" / "loads" / "1" / CARD).read_text())
    assert [(t["load"], t["episodes"]) for t in card["trained_on"]] == [(1.0, EPISODES), (0.8, 60)]
    assert card["metrics"]["policies"]["xgboost"]["all"]["episodes"] == EPISODES / 2
    assert len(card["judged"]) == 1
    shown = run("models", "show", "models/loads/1", cwd=home)
    assert "at 0.8 times the load" in shown.out
    adjust = ("models", "recalibrate", "models/loads/1", "heavy.npz", "--out", "models/loads/2")
    assert "give a table made without it" in refused(home, *adjust)


def test_training_without_its_packages_names_the_extra(home: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "skl2onnx"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')\n")
    path = f"{hidden.parent}:{CHECKOUT}"
    answer = run("train", "forest", "E.npz", "--out", "models/x/1", cwd=home, PYTHONPATH=path)
    assert answer.code == 2
    assert "mirage-provisioner[trees]" in answer.err
    assert "Traceback" not in answer.err
