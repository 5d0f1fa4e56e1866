"""`mirage models`, `evaluate` and `train --init` mean the models that the service decides by."""

import json
from pathlib import Path
from typing import Any

import pytest

from mirage.policies import registry
from mirage.policies.models.artefact import CARD
from tests.support.episodes.tables import MONDAY
from tests.support.mirage_process import Answer, configured, run
from tests.support.training.committed import save
from tests.support.training.queue_tables import EPISODES, queue_table

LATER = MONDAY + EPISODES * 4 * 3600 + 86400


class ModelsElsewhere:
    """A configuration whose models are elsewhere than where the commands are called."""

    def __init__(self, home: Path) -> None:
        self.work = home / "work"
        self.models = home / "site"
        self.config = configured(home)
        self.work.mkdir()
        save(self.models / "made" / "1")
        queue_table(60, seed=6, first=LATER).save(self.work / "later.npz")
        text = f'[provision]\npolicy = "models/made"\nmodels_dir = "{self.models}"\n'
        self.config.write_text(self.config.read_text() + text)

    def run(self, *words: str) -> Answer:
        answer = run(*words, "--config", str(self.config), cwd=self.work)
        assert answer.code == 0, answer.err
        return answer


@pytest.fixture
def away(tmp_path: Path) -> ModelsElsewhere:
    return ModelsElsewhere(tmp_path)


def test_what_is_promoted_is_what_the_service_takes(away: ModelsElsewhere) -> None:
    away.run("models", "promote", "models/made/1", "--force")
    assert (away.models / "made" / "promoted").read_text() == "1\n"
    assert away.run("config", "check").out == f"the configuration is right: {away.config}\n"


def test_they_are_listed_shown_and_adjusted_where_the_settings_say(away: ModelsElsewhere) -> None:
    listed = json.loads(away.run("models", "list", "--json").out)
    assert listed["models_dir"] == str(away.models)
    assert [line["model"] for line in listed["models"]] == ["models/made/1"]
    shown = json.loads(away.run("models", "show", "models/made/1", "--json").out)
    assert shown["model"] == "models/made/1"
    out = away.models / "made" / "2"
    away.run("models", "recalibrate", "models/made/1", "later.npz", "--out", str(out))
    assert len(json.loads(away.run("models", "list", "--json").out)["models"]) == 2


def test_those_of_ones_own_service_are_listed_shown_and_promoted(tmp_path: Path) -> None:
    state = tmp_path / ".local/state/mirage/service"
    save(state / "models/site-lab/1")
    (tmp_path / "work").mkdir()
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}

    def of_user(*words: str) -> Any:
        answer = run("models", *words, "--user", "--json", cwd=tmp_path / "work", environ=home)
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    listed = of_user("list")
    assert listed["models_dir"] == str(state / "models")
    assert [line["model"] for line in listed["models"]] == ["models/site-lab/1"]
    of_user("promote", "models/site-lab/1", "--force")
    assert of_user("show", "site-lab")["model"] == "models/site-lab/1"


def test_a_closed_folder_of_the_service_is_no_list_of_other_models_without_a_word(
    tmp_path: Path,
) -> None:
    config, state = configured(tmp_path), tmp_path / "state"
    save(state / "models/site-lab/1")
    (tmp_path / "work").mkdir()
    words = ("models", "list", "--config", str(config))
    listed = run(*words, cwd=tmp_path / "work", by_modes=True)
    assert ("site-lab" in listed.out, listed.err) == (True, "")
    state.chmod(0)
    closed = run(*words, cwd=tmp_path / "work", by_modes=True)
    state.chmod(0o755)
    assert "site-lab" not in closed.out
    assert f"{state} is closed to this account" in closed.err


def test_they_are_judged_without_a_word_where_the_configuration_is_implied(
    away: ModelsElsewhere,
) -> None:
    words = ("evaluate", "later.npz", "--policy", "models/made/1", "--json", "-")
    answer = run(*words, cwd=away.work, MIRAGE_CONFIG=str(away.config))
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["policies"] == json.loads(away.run(*words).out)["policies"]
    assert "no model" in run(*words, cwd=away.work).err


def test_training_goes_on_from_them(away: ModelsElsewhere) -> None:
    """Trees do not go on; but it is found."""
    words = ("train", "policy-gradient", "later.npz", "--init", "models/made/1")
    out = ("--out", "models/made/2", "--config", str(away.config))
    assert (
        f"{away.models}/made/1 is no policy-gradient agent" in run(*words, *out, cwd=away.work).err
    )


def judged(cost_h: float | None, gap: float, *, older: bool = False) -> dict[str, Any]:
    """The metrics of a card: the model `xgboost`, and plain Slurm."""
    names = ("interruption_h", "overlap_h", "zero_interruption_pct", "lead_h", "returns")
    rest = dict.fromkeys(names, 0.0) | {"episodes": 40}
    model = rest | {"cost_h": cost_h, "gap_closed": gap, "gap_closed_ci": [gap - 0.1, gap + 0.1]}
    plain = rest | {"cost_h": 4.0, "gap_closed": 0.0, "gap_closed_ci": None}
    terms = {} if older else {"most_returns": 2, "guarded": True}
    return terms | {"policies": {"xgboost": {"all": model}, "reactive": {"all": plain}}}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A folder with models of one cluster, of which the dearest closes most of an easier gap."""
    models = tmp_path / "models"
    for version, cost_h in (("9", 1.5), ("10", 1.2)):
        save(models / "cheap" / version, metrics=judged(cost_h, 0.4))
    registry.promote_version(save(models / "cheap" / "8", metrics=judged(1.6, 0.35)))
    save(models / "dear" / "1", metrics=judged(3.0, 0.9))
    save(models / "old" / "1", metrics=judged(2.0, 0.5, older=True))
    (save(models / "broken" / "1") / CARD).write_text("{")
    return tmp_path


def test_the_list_has_a_row_for_each_model_and_the_cheapest_comes_first(several: Path) -> None:
    rows = list_rows(run("models", "list", cwd=several).out)
    assert [row[0] for row in rows] == [
        "models/cheap", "models/old", "models/dear", "models/broken",
    ]  # fmt: skip
    assert rows[0][1:-1] == ["8", "xgboost", "2023-12-15", "0.35 [0.25, 0.45]", "3"]
    assert rows[1][4] == "0.50 [0.40, 0.60]*"
    assert rows[2][1] == "none (1 is newest)"
    assert rows[3][-1] != ""


def list_rows(text: str) -> list[list[str]]:
    """The cells of each row that begins with a model, of a table as people see it."""
    lines = (line.split("│")[1:-1] for line in text.splitlines() if "│" in line)
    cells = [[cell.strip() for cell in line] for line in lines]
    return [row for row in cells if row[0].startswith("models/")]


def test_the_list_for_scripts_has_every_version_and_all_its_keys(several: Path) -> None:
    answer = json.loads(run("models", "list", "--json", cwd=several).out)
    assert len(answer["models"]) == 6
    for line in answer["models"]:
        assert line.keys() >= {
            "model", "family", "promoted", "trained_on", "gap_closed", "fault",
        }  # fmt: skip
    old = next(line for line in answer["models"] if line["model"] == "models/old/1")
    assert (old["cost_h"], old["as_evaluate"], old["cluster"]) == (2.0, False, "made")


@pytest.mark.parametrize("name", ["models/cheap", "cheap"])
def test_the_versions_of_a_model_are_shown_newest_first(several: Path, name: str) -> None:
    answer = run("models", "show", name, cwd=several)
    assert answer.code == 0, answer.err
    rows = [line.strip("│ ").split("│") for line in answer.out.splitlines() if "│" in line]
    assert [row[0].strip() for row in rows] == ["10", "9", "8"]
    assert [row[1].strip() for row in rows] == ["", "", "yes"]
    assert answer.out.index("xgboost   ") < answer.out.index("reactive  ")
    told = json.loads(run("models", "show", name, "--json", cwd=several).out)
    assert told["model"] == "models/cheap/8"
    assert [line["model"] for line in told["model_versions"]] == [
        "models/cheap/10", "models/cheap/9", "models/cheap/8",
    ]  # fmt: skip
    assert "numpy" in told["versions"]


def test_a_promoted_version_that_is_gone_is_told(several: Path) -> None:
    (several / "models" / "dear" / "promoted").write_text("7\n")
    (row,) = (r for r in list_rows(run("models", "list", cwd=several).out) if "dear" in r[0])
    assert row[-1] == "version 7 is promoted, and its folder is gone"
