"""Which candidates are put forward, and on how many days their cards are judged."""

import json
from pathlib import Path

import numpy as np
import pytest

from mirage.lab.learning.candidates import compute_judged_share, explain_dearer
from mirage.observation import spec
from mirage.policies.models.artefact import CARD, FORMAT
from tests.support.episodes.tables import DAY_S
from tests.support.training.queue_tables import queue_table


def write_card(folder: Path, **cost_h: float) -> Path:
    policies = {name: {"all": {"cost_h": hours}} for name, hours in cost_h.items()}
    card = dict.fromkeys(("sha256", "seen", "forecast"), "") | {
        "format": FORMAT,
        "features_fingerprint": spec.FINGERPRINT,
        "family": "xgboost",
        "metrics": {"policies": policies},
    }
    (folder / CARD).write_text(json.dumps(card))
    return folder


def test_a_model_that_loses_to_a_rule_on_its_own_card_is_dearer(tmp_path: Path) -> None:
    lost = "by its own card it costs 2.00 h a hand-over, and twin 1.50 h"
    assert explain_dearer(write_card(tmp_path, xgboost=2.0, twin=1.5, quantile=1.9)) == lost
    assert "quantile 1.00 h" in str(explain_dearer(write_card(tmp_path, xgboost=2.0, quantile=1.0)))
    other = write_card(tmp_path, xgboost=2.0, twin=2.0, quantile=3.0, reactive=1.0)
    assert explain_dearer(other) is None
    assert explain_dearer(write_card(tmp_path, quantile=1.0)) is None, "it was judged on nothing"


@pytest.mark.parametrize(("days", "share"), [(1, None), (10_000, 0.5)])
def test_a_card_is_judged_on_the_newest_days_and_on_half_of_them_at_most(
    days: int, share: float | None
) -> None:
    tables = [queue_table(60), queue_table(60, seed=2)]
    start_point = np.concatenate([table.start_point for table in tables])
    newest = float((start_point > start_point.max() - days * DAY_S).mean())
    assert compute_judged_share(tables, days) == (min(0.5, newest) if share is None else share)
