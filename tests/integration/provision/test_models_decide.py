"""Trained models in the running service: they decide, or a rule does, and the reason is said."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mirage.database.chains.decisions import DecisionRow
from mirage.database.schema.engine import Store
from mirage.domain.decision import Mode
from mirage.observation import spec
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, GRAPH
from mirage.provision.cluster_observer import Observer
from mirage.provision.control.limits import Limits
from mirage.twin.cache import TwinCache
from tests.support.mirage_process import environment
from tests.support.paths import CHECKOUT
from tests.support.provision.scene import Scene
from tests.support.training.committed import save

MODEL = "models/made/1"
ANY = {"low": [-1e9] * len(spec.FEATURE_NAMES), "high": [1e9] * len(spec.FEATURE_NAMES)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that takes no chain and no observation for strange."""
    under = tmp_path_factory.mktemp("models")
    save(under / "made" / "1", seen=ANY, trained_on=[])
    return under


@pytest.fixture
def models(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "models"))


def serving(store: Store, models: Path, name: str = MODEL) -> Scene:
    """The scene after a tick, so that its history is known."""
    scene = Scene(store, policies=partial(registry.get_policy, under=models), mode=Mode.SHADOW)
    # However slow this machine is: the twin is asked in this tick.
    twin_cache = TwinCache(budget_s=3600.0)
    observer = Observer(params=scene.cluster.params, twin_cache=twin_cache)
    scene.settings = replace(scene.settings, default_policy="reactive")
    scene.new_worker().run_tick()
    scene.settings = replace(scene.settings, default_policy=name, observer=observer)
    scene.worker = scene.new_worker()
    return scene


def decided(scene: Scene) -> DecisionRow:
    scene.tick()
    return scene.decisions[-1]


def test_a_model_decides_on_what_is_seen_live(sqlite_store: Store, models: Path) -> None:
    scene = serving(sqlite_store, models)
    row = decided(scene)
    assert row.policy == MODEL
    assert row.reason.startswith("a release now is expected to cost")
    assert row.forecast is not None
    assert row.forecast.p10_s is not None
    assert row.forecast.p90_s is not None
    assert row.inputs.keys() == {"predecessor", "standby", "observation"}


def test_a_name_without_a_version_is_the_promoted_one(sqlite_store: Store, models: Path) -> None:
    registry.promote_version(models / "made" / "1")
    assert decided(serving(sqlite_store, models, "models/made")).policy == MODEL


def test_a_version_that_is_promoted_while_the_service_runs_decides_from_the_next_tick(
    sqlite_store: Store, models: Path
) -> None:
    save(models / "made" / "2", seen=ANY, trained_on=[])
    registry.promote_version(models / "made" / "1")
    scene = serving(sqlite_store, models, "models/made")
    assert decided(scene).policy == MODEL
    registry.promote_version(models / "made" / "2")
    assert decided(scene).policy == "models/made/2"
    registry.take_back_version(models / "made" / "2", {"model": "models/made/2"})
    assert decided(scene).policy == MODEL


def test_auto_has_the_promoted_version_as_its_candidate_without_a_restart(models: Path) -> None:
    save(models / "made" / "2", seen=ANY, trained_on=[])

    def first() -> str:
        names = [c.name for c in registry.build_auto(models).candidates]
        return next((name for name in names if name.startswith("models/")), "")

    assert first() == ""
    registry.promote_version(models / "made" / "1")
    assert first() == MODEL
    registry.promote_version(models / "made" / "2")
    assert first() == "models/made/2"
    registry.take_back_version(models / "made" / "2", {"model": "models/made/2"})
    assert first() == MODEL


def test_auto_asks_the_sites_own_model_before_others_of_this_cluster(models: Path) -> None:
    for name in ("another", "site-lab", "zoo"):
        registry.promote_version(save(models / name / "1", seen=ANY, trained_on=[]))
    names = [c.name for c in registry.build_auto(models).candidates]
    assert names[:3] == ["models/site-lab/1", "models/another/1", "models/zoo/1"]


def test_auto_observes_nothing_where_the_position_settles_it(
    sqlite_store: Store, models: Path
) -> None:
    registry.promote_version(models / "made" / "1")
    scene = serving(sqlite_store, models, "auto")
    pinned = decided(scene)
    assert pinned.reason.startswith("pin-then-free decides")
    assert "observation" not in pinned.inputs
    scene.settings = replace(scene.settings, limits=Limits(allow_pin=False))
    scene.worker = scene.new_worker()
    asked = decided(scene)
    assert "observation" in asked.inputs
    assert asked.reason.startswith("twin decides: ")


def test_a_decision_says_that_the_twin_and_models_are_not_compiled_yet(
    sqlite_store: Store, models: Path
) -> None:
    registry.promote_version(models / "made" / "1")
    scene = serving(sqlite_store, models, "auto")
    assert scene.settings.observer is not None
    observer = replace(scene.settings.observer, is_compiled=lambda: False)
    limits = Limits(allow_pin=False)
    scene.settings = replace(scene.settings, observer=observer, limits=limits)
    scene.worker = scene.new_worker()
    row = decided(scene)
    why = "the twin was not asked: the simulator is being compiled, once after an installation"
    assert row.reason.startswith(f"quantile decides, since twin cannot be asked ({why}): ")


def rewritten(folder: Path, **card: object) -> None:
    told = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps(told | card))


def cut(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (shutil.rmtree, "no model"),
    "no graph": (lambda folder: (folder / GRAPH).unlink(), "cannot be read"),
    "graph cut off": (lambda folder: cut(folder, GRAPH), "is not the file"),
    "card cut off": (lambda folder: cut(folder, CARD), "is not valid JSON"),
    "other sha256": (lambda folder: rewritten(folder, sha256="0" * 64), "is not the file"),
    "other fingerprint": (
        lambda folder: rewritten(folder, features_fingerprint="0" * 64),
        "other features",
    ),
    "other cluster": (
        lambda folder: rewritten(folder, seen={"low": ANY["high"], "high": ANY["high"]}),
        "is far from all that the model has learned from",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_model_that_cannot_be_asked_is_stood_in_for(
    sqlite_store: Store, models: Path, damage: str
) -> None:
    spoil, why = DAMAGES[damage]
    spoil(models / "made" / "1")
    scene = serving(sqlite_store, models)
    row = decided(scene)
    assert row.policy == MODEL
    assert why in row.reason
    assert "so quantile decides: " in row.reason
    scene.settings = replace(scene.settings, default_policy="quantile")
    scene.worker = scene.new_worker()
    rule = decided(scene)
    assert row.action is rule.action
    assert row.reason.endswith(rule.reason)


def test_a_model_that_goes_while_it_serves_is_stood_in_for(
    sqlite_store: Store, models: Path
) -> None:
    scene = serving(sqlite_store, models)
    assert "quantile decides" not in decided(scene).reason
    shutil.rmtree(models / "made" / "1")
    assert "so quantile decides: " in decided(scene).reason


def test_without_a_cluster_file_the_decision_says_so(sqlite_store: Store, models: Path) -> None:
    scene = serving(sqlite_store, models)
    scene.settings = replace(scene.settings, observer=None)
    scene.worker = scene.new_worker()
    assert "no cluster file is set (cluster.file), so quantile" in decided(scene).reason


_SERVICE = """
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
import mirage.web.api.app
from dataclasses import replace
from mirage.policies import registry
from mirage.provision.cluster_observer import Observer
from mirage.database.schema.engine import Store
from tests.support.provision.scene import Scene
with closing(Store(sys.argv[2])) as store:
    scene = Scene(store, policies=partial(registry.get_policy, under=Path(sys.argv[1])))
    observer = Observer(params=scene.cluster.params)
    scene.settings = replace(scene.settings, default_policy="models/made/1", observer=observer)
    scene.worker = scene.new_worker()
    scene.tick()
    scene.tick()
    row = scene.decisions[-1]
    print(row.policy if row.forecast and "decides" not in row.reason else row.reason)
heavy = {"torch", "sklearn", "xgboost", "stable_baselines3", "gymnasium", "onnx", "optuna"}
print(*sorted(heavy & set(sys.modules)))
"""


def test_the_service_loads_nothing_that_only_training_needs(
    sqlite_template: Path, models: Path, tmp_path: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "other.db")
    done = subprocess.run(
        [sys.executable, "-c", _SERVICE, str(models), f"sqlite:///{tmp_path}/other.db"],
        capture_output=True,
        text=True,
        check=True,
        cwd=CHECKOUT,
        env=environment(),
    )
    policy, loaded = done.stdout.split("\n")[-3:-1]
    assert (policy, loaded) == (MODEL, "")
