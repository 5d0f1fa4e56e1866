"""`mirage models`, `evaluate` and `train --init` mean the models that the service decides by."""

import json
from pathlib import Path

import pytest

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
