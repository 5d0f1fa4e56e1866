"""Which candidates are put forward, and on how many days their cards are judged."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mirage.lab.learning.candidates import compute_judged_share, explain_dearer
from mirage.observation import spec
from mirage.policies.models.artefact import CARD, FORMAT, read_card
from mirage.policies.results.card_results import format_column, parse_card
from mirage.policies.results.comparison import find_beaten
from tests.support.episodes.tables import DAY_S
from tests.support.training.queue_tables import queue_table


def write_card(folder: Path, *shapes: Mapping[str, float], days: int = 5) -> Path:
    """The card of a model that was judged on shapes of chain, each with policies' costs in hours:
    one hand-over a day."""
    start_point = np.arange(days) * DAY_S
    judged = [
        {
            "cluster": "lab",
            "nodes": number,
            "time_limit_s": DAY_S,
            "start_point": format_column(start_point),
            "known_at": format_column(start_point + DAY_S),
            "load_s": format_column(np.zeros(days, dtype=np.int64)),
            "x_s": {"0.5": {name: " ".join([str(round(h * 3600))] * days) for name, h in costs}},
        }
        for number, costs in enumerate((shape.items() for shape in shapes), start=1)
    ]
    card = dict.fromkeys(("sha256", "seen", "forecast", "family"), "") | {
        "format": FORMAT,
        "features_fingerprint": spec.FINGERPRINT,
        "judged": judged,
    }
    (folder / CARD).write_text(json.dumps(card))
    return folder


def test_a_model_that_loses_to_a_rule_on_its_own_card_is_dearer(tmp_path: Path) -> None:
    lost = "it costs 2.00 h a hand-over, and twin 1.50 h"
    loses = {"model": 2.0, "twin": 1.5, "quantile": 1.9}
    assert explain_dearer(write_card(tmp_path, loses)) == lost
    assert "quantile 1.00 h" in str(
        explain_dearer(write_card(tmp_path, {**loses, "twin": 2.0, "quantile": 1.0}))
    )
    other = {"model": 2.0, "twin": 2.0, "quantile": 3.0, "reactive": 1.0}
    assert explain_dearer(write_card(tmp_path, other)) is None
    assert explain_dearer(write_card(tmp_path, loses, other)) is None, "it wins for one shape"
    assert explain_dearer(write_card(tmp_path, loses, days=3)) is None, "auto compares four days"
    assert explain_dearer(write_card(tmp_path)) is None, "it was judged on nothing"


def test_auto_asks_no_model_that_is_dearer_by_its_own_card(tmp_path: Path) -> None:
    loses = {"model": 2.0, "twin": 1.5}
    (shape,) = parse_card(read_card(write_card(tmp_path, loses)))
    results = shape.get_results_at(0.5, "models/site-lab/1")
    assert find_beaten(["models/site-lab/1"], ["quantile", "twin"], results, 0.5, 4.0)


@pytest.mark.parametrize(("days", "share"), [(1, None), (10_000, 0.5)])
def test_a_card_is_judged_on_the_newest_days_and_on_half_of_them_at_most(
    days: int, share: float | None
) -> None:
    tables = [queue_table(60), queue_table(60, seed=2)]
    start_point = np.concatenate([table.start_point for table in tables])
    newest = float((start_point > start_point.max() - days * DAY_S).mean())
    assert compute_judged_share(tables, days) == (min(0.5, newest) if share is None else share)
