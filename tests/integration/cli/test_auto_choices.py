"""`mirage evaluate --policy auto` as a process: its figures, and who decided."""

import json
from pathlib import Path

import pytest

from mirage.policies import registry
from tests.support.episodes.tables import MONDAY
from tests.support.mirage_process import Answer, run
from tests.support.training.committed import save
from tests.support.training.queue_tables import queue_table


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a promoted model and a table that it fits."""
    registry.promote_version(save(tmp_path / "models" / "made" / "1"))
    queue_table(20, seed=7, first=MONDAY + 90 * 86400).save(tmp_path / "E.npz")
    return tmp_path


def evaluated(work: Path, *words: str) -> Answer:
    answer = run("evaluate", "E.npz", "--policy", "auto", *words, cwd=work)
    assert answer.code == 0, answer.err
    return answer


def test_it_is_judged_beside_the_others_and_says_who_decided(work: Path) -> None:
    told = json.loads(evaluated(work, "models/made/1", "--json", "-").out)["policies"]
    assert list(told) == ["reactive", "average", "oracle", "auto", "models/made/1"]
    auto = told["auto"]["all"]
    assert auto["auto_chosen"] == {"models/made/1": 1.0}
    assert auto["cost_h"] == told["models/made/1"]["all"]["cost_h"]
    assert auto["auto_skipped"] == {}


def test_without_a_model_the_skipped_one_is_named(work: Path) -> None:
    (work / "models" / "made" / "1" / "card.json").write_text("{")
    answer = evaluated(work)
    assert "auto let these policies decide: quantile (100%)" in answer.out
    assert "models/made: " in answer.out
    assert "is not valid JSON" in answer.out
