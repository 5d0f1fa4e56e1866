"""What a version has to show before it takes the place of the one in use."""

from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.judging import model_promotion
from mirage.lab.training.artefact.model_card import _describe_table
from mirage.policies import registry
from tests.support.training.committed import save
from tests.support.training.queue_tables import EPISODES, queue_table, training_table

LATER = training_table().metadata.since + EPISODES * 4 * 3600 + 86400


def test_a_model_is_not_judged_on_chains_that_it_is_not_for(tmp_path: Path) -> None:
    models, path = tmp_path / "models", tmp_path / "newer.npz"
    registry.promote_version(save(models / "made/1"))
    save(models / "made/2", trained_on=[_describe_table(training_table()) | {"nodes": 64}])
    queue_table(40, seed=4, first=LATER).save(path)
    outside = r"made/2 decides for: it was trained for 64 node\(s\), not 1"
    with pytest.raises(InputError, match=outside):
        model_promotion.judge_promotion(
            "models/made/2", models, [path], force=False, fill_twin=lambda *_: None
        )
