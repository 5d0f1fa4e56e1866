"""The kill switch on the simulated cluster: pulled by each way, obeyed at the next tick."""

from pathlib import Path

import pytest

from mirage.database.events import audit
from mirage.database.operations import clusters, telemetry
from mirage.domain.decision import Mode
from mirage.errors import IllegalTransition, InputError, NotFound
from mirage.provision.control import kill_switch, limit_overrides, modes
from mirage.provision.control.kill_switch import Way
from mirage.provision.control.limits import Limits
from mirage.service.worker import Worker
from tests.support.provision.scene import Scene
from tests.support.provision.slurm_jobs import NOW


def pull(scene: Scene, way: Way) -> None:
    with scene.store.begin() as tx:
        kill_switch.pull_switch(tx, scene.cluster_id, way, now=NOW, actor="root")


def release(scene: Scene, *, act_again: bool = False) -> None:
    with scene.store.begin() as tx:
        kill_switch.release_switch(tx, scene.cluster_id, now=NOW, actor="root", act_again=act_again)


def mode(scene: Scene) -> Mode:
    with scene.store.read() as tx:
        return clusters.list_modes(tx, scene.cluster_id)[""]


def ways(scene: Scene) -> list[str]:
    with scene.store.read() as tx:
        return [each.way for each in kill_switch.list_pulls(tx, scene.cluster_id)]


@pytest.mark.parametrize("way", [Way.COMMAND, Way.REST])
def test_pulled_by_a_word_nothing_moves_until_it_is_released(scene: Scene, way: Way) -> None:
    pull(scene, way)
    scene.tick()
    assert scene.held
    assert mode(scene) is Mode.SHADOW
    release(scene)
    scene.tick()
    assert scene.held, "released, it stays in shadow"
    with scene.store.begin() as tx:
        modes.set_mode(tx, scene.cluster_id, Mode.ACT, "", now=NOW, actor="root")
    scene.tick()
    assert not scene.held


def test_what_acted_may_act_again(scene: Scene) -> None:
    pull(scene, Way.REST)
    release(scene, act_again=True)
    scene.tick()
    assert not scene.held
    with scene.store.read() as tx:
        told = [entry.event for entry in audit.list_entries(tx, scene.cluster_id)]
    assert {"kill switch pulled", "kill switch released"} <= set(told)


def test_a_mode_that_was_set_since_is_not_acted_over(scene: Scene) -> None:
    pull(scene, Way.REST)
    with scene.store.begin() as tx:
        modes.set_mode(tx, scene.cluster_id, Mode.OBSERVE, "", now=NOW, actor="ada")
    release(scene, act_again=True)
    assert mode(scene) is Mode.OBSERVE


def test_a_file_pulls_and_its_going_releases(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "shadow"
    scene.worker = Worker(
        scene.store, scene.cluster, scene.cluster_id, settings=scene.settings, kill_file=file
    )
    file.touch()
    scene.tick()
    assert scene.held
    assert ways(scene) == ["file"]
    release(scene, act_again=True)
    assert ways(scene) == ["file"], "no word releases it"
    file.unlink()
    scene.tick()
    assert ways(scene) == []
    assert mode(scene) is Mode.SHADOW


def test_nothing_is_set_to_act_while_it_is_pulled(scene: Scene) -> None:
    pull(scene, Way.REST)
    with (
        pytest.raises(IllegalTransition, match=r"pulled by root at .* \(released by the page"),
        scene.store.begin() as tx,
    ):
        modes.set_mode(tx, scene.cluster_id, Mode.ACT, "gpu", now=NOW, actor="ada")
    # Two processes at once on PostgreSQL: each has seen the state before the other's word.
    with scene.store.begin() as tx:
        clusters.set_mode(tx, scene.cluster_id, Mode.ACT)
    scene.tick()
    assert scene.held
    assert mode(scene) is Mode.SHADOW


def test_act_again_waits_for_the_last_way(scene: Scene, tmp_path: Path) -> None:
    pull(scene, Way.FILE)
    pull(scene, Way.REST)
    release(scene, act_again=True)
    assert mode(scene) is Mode.SHADOW


def set_cap(scene: Scene, name: str, value: float | None) -> None:
    with scene.store.begin() as tx:
        limit_overrides.set_limit_override(tx, scene.cluster_id, name, value, now=NOW, actor="root")


def test_a_limit_set_by_hand_binds_from_the_next_tick(scene: Scene) -> None:
    set_cap(scene, "account_overlap_node_h", 0)
    scene.tick()
    assert scene.held
    assert "(account_overlap_node_h)" in scene.decisions[-1].reason
    set_cap(scene, "account_overlap_node_h", None)
    scene.tick()
    assert not scene.held


@pytest.mark.parametrize("name", limit_overrides.ADJUSTABLE_LIMITS)
def test_each_limit_is_the_one_that_is_set(scene: Scene, name: str) -> None:
    set_cap(scene, name, 1)
    with scene.store.read() as tx:
        limits = limit_overrides.read_effective_limits(tx, scene.cluster_id, Limits())
        (told,) = (
            each
            for each in limit_overrides.list_limits(tx, scene.cluster_id, Limits(), {})
            if each.name == name
        )
    changed = {f for f in Limits.__dataclass_fields__ if getattr(limits, f) != getattr(Limits(), f)}
    assert changed <= {limit_overrides.ADJUSTABLE_LIMITS[name].field}
    assert limit_overrides.ADJUSTABLE_LIMITS[name].get_value(limits) == 1
    assert (told.value, told.set_by, told.set_at) == (1, "root", NOW)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("max_touches", 0, InputError),
        ("max_touches", 2.5, InputError),
        ("allow_pin", 2, InputError),
        ("cluster_overlap_node_h", float("nan"), InputError),
        ("max_chains", 3, NotFound),
    ],
)
def test_limits_have_bounds(scene: Scene, name: str, value: float, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        set_cap(scene, name, value)


def test_the_worker_tells_of_its_rounds(scene: Scene) -> None:
    scene.tick()
    with scene.store.read() as tx:
        tick = telemetry.find_last_tick(tx, scene.cluster_id)
    assert tick is not None
    assert (tick.at, tick.good_at, tick.error) == (scene.cluster.read_clock(), tick.at, "")
    assert tick.took_s > 0.0
