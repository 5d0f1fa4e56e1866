"""`mirage models promote` as a process: what it takes to take another version's place."""

import json
from pathlib import Path

import pytest

from mirage.policies import registry
from tests.support.episodes.tables import MONDAY
from tests.support.mirage_process import Answer, run
from tests.support.training.committed import save_two_versions
from tests.support.training.queue_tables import EACH_DAY, EPISODES, queue_table

LATER = MONDAY + EPISODES * 4 * 3600 + 86400
CALM, BUSY = -4.0, 6.0
"""Hours of a day's wait: none at all, and longer than the predecessor's four."""


MIXED = [CALM] * 4 + [BUSY] * 6


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Version 1, which frees at once, is in use; version 2 is a trained one."""
    save_two_versions(tmp_path / "models")
    return tmp_path


def promote(home: Path, days: list[float], *words: str, version: int = 2) -> Answer:
    made = queue_table(len(days) * EACH_DAY, seed=4, first=LATER, loads=days)
    made.save(home / "newest.npz")
    return run("models", "promote", f"models/made/{version}", "newest.npz", *words, cwd=home)


def in_use(home: Path) -> str | None:
    return registry.find_promoted_version(home / "models" / "made")


def test_one_that_is_cheaper_day_after_day_is_promoted_and_the_gain_is_told(home: Path) -> None:
    answer = promote(home, [CALM] * 8, "--json")
    assert (answer.code, answer.err) == (0, "")
    told = json.loads(answer.out)
    low, high = told["difference_h_ci"]
    assert low <= told["difference_h"] <= high < 0.0
    assert told["difference_h"] == pytest.approx(told["cost_h"] - told["cost_before_h"])
    assert (told["promoted"], told["episodes"], told["days"]) == (True, 48, 8)
    assert in_use(home) == "2"


def test_the_gain_is_told_in_words(home: Path) -> None:
    answer = promote(home, [CALM] * 8)
    assert (answer.code, answer.err) == (0, "")
    (line,) = answer.out.splitlines()
    assert "95 % interval" in line
    assert "48 hand-overs of 8 days" in line
    assert line.endswith("models/made/2 is in use")


def test_a_lower_mean_that_some_days_have_made_is_refused(home: Path) -> None:
    answer = promote(home, MIXED, "--json")
    assert answer.code == 1
    told = json.loads(answer.out)
    assert told["cost_h"] < told["cost_before_h"]
    assert told["difference_h_ci"][1] >= 0.0
    assert told["promoted"] is False
    (line,) = answer.err.strip().splitlines()
    assert "that may be luck; models/made/1 stays in use" in line
    assert "give tables of more days, or --force" in line
    assert f"{told['difference_h']:+.3f} h" in line
    assert in_use(home) == "1"
    assert promote(home, MIXED, "--force").code == 0
    assert in_use(home) == "2"


def test_few_days_are_refused_whatever_they_say(home: Path) -> None:
    answer = promote(home, [CALM] * 5)
    assert (answer.code, answer.out) == (1, "")
    assert "fewer than 6 days are too few to compare; models/made/1 stays in use" in answer.err


def test_one_that_is_dearer_is_refused(home: Path) -> None:
    registry.promote_version(home / "models" / "made" / "2")
    answer = promote(home, [CALM] * 8, version=1)
    assert (answer.code, answer.out) == (1, "")
    assert "the new version is not cheaper; models/made/2 stays in use" in answer.err
