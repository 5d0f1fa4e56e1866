"""What a version has to show before it takes the place of the one in use."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.judging import model_promotion
from mirage.judging.model_promotion import PromotionReview
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.artefact.model_card import _describe_table
from mirage.policies import registry
from tests.support.training.committed import AT_ONCE, save
from tests.support.training.queue_tables import (
    EACH_DAY,
    EPISODES,
    foretold,
    learned,
    queue_table,
)

LATER = learned().about.since + EPISODES * 4 * 3600 + 86400


def test_a_model_is_not_judged_on_chains_that_it_is_not_for(tmp_path: Path) -> None:
    models, path = tmp_path / "models", tmp_path / "newer.npz"
    registry.promote_version(save(models / "made/1"))
    save(models / "made/2", trained_on=[_describe_table(learned()) | {"nodes": 64}])
    queue_table(40, seed=4, first=LATER).save(path)
    outside = r"made/2 decides for: it was trained for 64 node\(s\), not 1"
    with pytest.raises(InputError, match=outside):
        model_promotion.judge_promotion(
            "models/made/2", models, [path], force=False, fill_twin=lambda *_: None
        )


def first(models: Path, loads: list[float]) -> PromotionReview:
    """Judge the first version of a name on days of such loads, with the twin's answers."""
    made = foretold(queue_table(len(loads) * EACH_DAY, seed=4, first=LATER, loads=loads))
    path = models.parent / "newer.npz"
    made.save(path)
    twins = made.twins

    def fill(_policies: object, _paths: object, tables: Sequence[EpisodeTable]) -> None:
        for table in tables:
            table.twins = twins

    return model_promotion.judge_promotion(
        "models/made/1", models, [path], force=False, fill_twin=fill
    )


def test_a_first_version_has_to_beat_the_better_of_twin_and_quantile(tmp_path: Path) -> None:
    save(tmp_path / "models" / "made" / "1", forecast=AT_ONCE)
    review = first(tmp_path / "models", [-4.0] * 8)
    assert review.before is None
    assert review.comparison is not None
    evidence = review.build_evidence()
    assert evidence["compared_with"] in ("twin", "quantile")
    assert evidence["cost_h"] > evidence["cost_before_h"]
    assert evidence["promoted"] is False
    assert "models/made/1 is not promoted" in str(review.refusal)


def test_a_first_version_is_not_promoted_for_nothing(tmp_path: Path) -> None:
    save(tmp_path / "models" / "made" / "1")
    with pytest.raises(InputError, match="twin or quantile decides now: give episode tables"):
        model_promotion.judge_promotion(
            "models/made/1", tmp_path / "models", [], force=False, fill_twin=lambda *_: None
        )
    forced = model_promotion.judge_promotion(
        "models/made/1", tmp_path / "models", [], force=True, fill_twin=lambda *_: None
    )
    assert (forced.refusal, forced.comparison) == (None, None)
