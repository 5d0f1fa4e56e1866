"""A model decides where it can be asked; where it cannot the twin or a rule does and says why."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mirage.domain.arrays import Observations
from mirage.domain.decision import Action, PolicyView
from mirage.errors import InputError, UnfitModel
from mirage.judging import policy_runner
from mirage.lab.training.dataset import Rows
from mirage.observation import spec
from mirage.policies import registry
from mirage.policies.models.artefact import (
    CARD,
    GRAPH,
    MOST_STRANGE,
    NOT_IN_TABLES,
    STRANGE_BY,
    Artefact,
)
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.rules.release_cost import ReleaseCosts
from mirage.twin.twin_features import LEVELS
from tests.support.policies.views import view, waits
from tests.support.training.queue_tables import queue_table, training_table
from tests.support.training.trained import FAMILIES, fitted, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "made" / "1")


def seen(observation: Observations | None, price: float = 0.5) -> PolicyView:
    return view(
        3600,
        observation=observation,
        overlap_price=price,
        time_limit_s=training_table().metadata.time_limit_s,
        jobs=waits([7200] * 30),
    )


def known() -> Observations:
    row: Observations = training_table().observations[40, 12]
    return row


def damaged(folder: Path, tmp_path: Path, **card: object) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / GRAPH).write_bytes((folder / GRAPH).read_bytes())
    read = json.loads((folder / CARD).read_text())
    (copy / CARD).write_text(json.dumps(read | card))
    return copy


def find_release(wait_s: NDArray[np.float64], left_s: NDArray[np.float64]) -> int:
    """The first of D instants at which no later release costs less by the waits [D, Q]."""
    for k, (waits_s, left) in enumerate(zip(wait_s, left_s, strict=True)):
        best = ReleaseCosts(waits_s, 0.5, returns=0).choose_release(left)
        if left - best.lead_s < 1:
            return k
    return len(left_s)


def test_it_chooses_what_the_trees_choose(served: ModelPolicy) -> None:
    table = queue_table(30, seed=8)
    chosen = policy_runner.run_policy(table, served, 0.5)
    rows = Rows.from_tables([table])
    wait_s = np.round(fitted(FAMILIES[1]).predict_wait_h(rows) * 3600)
    wanted = [
        find_release(waits_s, rows.left_h * 3600)
        for waits_s in wait_s.reshape(len(rows), len(rows.left_h), -1)
    ]
    assert chosen.tolist() == wanted
    assert len(set(chosen.tolist())) > 3


def test_the_reason_and_the_forecast_are_told(served: ModelPolicy) -> None:
    decision = served.decide(seen(known()))
    assert decision.policy == "models/made/1"
    assert "is expected to cost" in decision.reason
    forecast = decision.forecast
    assert forecast is not None
    assert forecast.p10_s is not None
    assert forecast.p90_s is not None
    assert 0.0 <= forecast.p10_s <= forecast.p50_s <= forecast.p90_s


def test_the_price_of_the_view_decides(served: ModelPolicy) -> None:
    rows = training_table().observations[:, 6]
    frees = {
        price: sum(served.decide(seen(row, price)).action is Action.FREE for row in rows)
        for price in (0.05, 0.5, 5.0)
    }
    assert frees[0.05] > frees[0.5] > frees[5.0]


def larger(cluster: float) -> Observations:
    """Every count so many times what it was."""
    counted = spec.SCALES == spec.Scaling.LOG
    grown: Observations = (known() + counted * np.log(cluster)).astype(np.float32)
    return grown


@pytest.mark.parametrize(
    ("observation", "why"),
    [
        (None, "there is no observation"),
        (np.full(len(spec.FEATURE_NAMES), np.nan, dtype=np.float32), "not finite"),
        (np.full(len(spec.FEATURE_NAMES), 50.0, dtype=np.float32), "far from all"),
        (np.zeros(3, dtype=np.float32), "has 3 numbers"),
        (larger(10.0), "far from all"),
    ],
    ids=["none", "nan", "far", "short", "ten times larger"],
)
def test_where_it_cannot_be_asked_a_rule_decides_and_says_so(
    served: ModelPolicy, observation: Observations | None, why: str
) -> None:
    decision = served.decide(seen(observation))
    rule = registry.POLICIES["quantile"].decide(seen(observation))
    assert (decision.action, decision.policy) == (rule.action, "models/made/1")
    assert why in decision.reason
    assert "quantile decides" in decision.reason
    assert decision.forecast == rule.forecast


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(("wait_h", "action"), [(0, Action.WAIT), (9, Action.FREE)])
def test_where_the_twin_was_asked_it_stands_in(
    served: ModelPolicy, wait_h: int, action: Action, gone: bool
) -> None:
    answer = np.full(len(LEVELS), wait_h * 3600, dtype=np.int32)
    shown = replace(seen(None), twin_s=answer)
    model = UnavailableModel("models/made/1", "there is no model") if gone else served
    decision = model.decide(shown)
    assert (decision.action, decision.policy) == (action, "models/made/1")
    assert f"there is no {'model' if gone else 'observation'}, so twin decides" in decision.reason
    assert decision.forecast == registry.POLICIES["twin"].decide(shown).forecast


_ASKED = """
import sys
from pathlib import Path
import numpy as np
from mirage.observation import spec
from mirage.policies.models.artefact import Artefact
model = Artefact.load(Path(sys.argv[1])).model
model.predict_wait_h(np.zeros((1, len(spec.FEATURE_NAMES)), dtype=np.float32))
print(*sorted({"torch", "sklearn", "xgboost", "onnx"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", NOT_IN_TABLES)
def test_what_no_table_has_a_model_is_shown_as_it_has_learned_it(
    served: ModelPolicy, name: str
) -> None:
    """Two nodes down, or an owner with more jobs than the chain, are a normal day."""
    at, observation = spec.PLACES[name], known().copy()
    observation[at] = served.artefact.training_range.high[at]
    like_it = served.decide(seen(observation.copy()))
    observation[at] += 5.0
    before = observation.copy()
    decision = served.decide(seen(observation))
    assert decision == like_it
    assert decision.policy == "models/made/1"
    assert (observation == before).all()


def test_a_few_strange_numbers_are_shown_as_near_as_it_is_asked_about(served: ModelPolicy) -> None:
    """The median wait of an ordinary week may be one that no week before had."""
    names = ("waited_p50", "waited_like_p90", "plan_wait", "ahead_machine_time")
    places = [spec.PLACES[name] for name in names]
    learned = served.artefact.training_range
    near, far = known().copy(), known().copy()
    near[places[:MOST_STRANGE]] = learned.high[places[:MOST_STRANGE]] + STRANGE_BY
    far[places[:MOST_STRANGE]] = learned.high[places[:MOST_STRANGE]] + 5.0
    decision = served.decide(seen(far))
    assert decision == served.decide(seen(near))
    assert "is expected to cost" in decision.reason
    far[places] = learned.high[places] + 5.0
    assert "far from all" in served.decide(seen(far)).reason


def test_a_served_model_loads_nothing_that_only_training_needs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASKED, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_truncated_graph_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    (copy / GRAPH).write_bytes((folder / GRAPH).read_bytes()[:-100])
    with pytest.raises(UnfitModel, match="is not the file"):
        Artefact.load(copy)


@pytest.mark.parametrize(
    ("card", "why"),
    [
        ({"sha256": "0" * 64}, "is not the file"),
        ({"features_fingerprint": "0" * 64}, "other features"),
        ({"format": "mirage-model/0"}, "has another format than"),
        ({"forecast": {"levels": [0.5], "thresholds_h": [], "shift": [0.0]}}, "other quantiles"),
        ({"forecast": {}}, "cannot be loaded"),
        (
            {"advantage": {"unit": "hours", "prices": [0, 1], "window": 0}},
            "its graph computes wait",
        ),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, card: dict[str, object], why: str
) -> None:
    with pytest.raises(UnfitModel, match=why) as told:
        Artefact.load(damaged(folder, tmp_path, **card))
    assert "\n" not in str(told.value)


def test_a_graph_that_is_none_is_refused(folder: Path, tmp_path: Path) -> None:
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    copy = damaged(folder, tmp_path, sha256=digest)
    (copy / GRAPH).write_bytes(b"")
    with pytest.raises(UnfitModel, match="cannot be loaded"):
        Artefact.load(copy)


def test_a_card_that_is_cut_off_or_absent_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = damaged(folder, tmp_path)
    (copy / CARD).write_text((folder / CARD).read_text()[:100])
    with pytest.raises(UnfitModel, match="is not valid JSON"):
        Artefact.load(copy)
    (copy / CARD).unlink()
    with pytest.raises(UnfitModel, match="cannot be read"):
        Artefact.load(copy)


def test_models_are_found_by_name_and_by_promotion(folder: Path) -> None:
    under = folder.parent.parent
    assert registry.get_policy("models/made/1", under).name == "models/made/1"
    assert registry.list_model_folders(under) == [folder]
    with pytest.raises(InputError, match="promoted"):
        registry.get_policy("models/made", under)
    registry.promote_version(folder)
    assert registry.get_policy("models/made", under).name == "models/made/1"


def test_a_folder_of_models_that_is_not_there_is_named(tmp_path: Path) -> None:
    away = tmp_path / "away"
    with pytest.raises(InputError, match=f"there is no folder {away} "):
        registry.resolve_folder("models/made", away)
    away.mkdir()
    with pytest.raises(InputError, match="no version of models/made was promoted"):
        registry.resolve_folder("models/made", away)


@pytest.mark.parametrize(
    "name",
    ["models/../../etc", "models/", "models/a/b/c", "models/a/..", "models/" + "a" * 256 + "/1"],
)
def test_no_name_leads_out_of_the_folder(name: str, folder: Path) -> None:
    with pytest.raises(InputError, match="is not the name of a model"):
        registry.get_policy(name, folder.parent.parent)
