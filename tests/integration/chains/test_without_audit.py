"""The audit is for people: stories whose audit is emptied before each look end as they do with it.

Each story returns what was done: what Slurm was told, and how the chain stands.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains.chain_state import FAST_FAILURES
from mirage.chains.lifecycle import Registration
from mirage.chains.request_enforcement import MOST_TRIES
from mirage.chains.standby_position import GRACE_S
from mirage.chains.submit_instruction import get_submit_instruction
from mirage.database.chains import chains
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.operations import clusters
from mirage.database.operations.demotions import LASTS_S
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainMode, ChainState
from mirage.domain.decision import Forecast, Mode
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import (
    ALICE,
    CHAIN,
    NOW,
    WrittenCluster,
    chain,
    ended,
    running,
)
from tests.support.provision.slurm_jobs import standby as held

SETTINGS = DecisionSettings(get_policy=Always, default_policy="always")
MINUTE = 60


class Scene:
    """alice's chain in a queue that the story writes; the audit is there, or forgotten."""

    def __init__(self, store: Store, *, forgets: bool) -> None:
        self.store, self._forgets = store, forgets
        self.cluster = WrittenCluster(running(1), held(2))
        self.settings = SETTINGS
        with store.begin() as tx:
            clusters.ensure_cluster(tx, "lab")

    def show(self, *jobs: Job) -> None:
        self.cluster.jobs = list(jobs)

    def tick(self, after_s: int = MINUTE) -> None:
        self.forget()
        self.cluster.at += after_s
        Worker(self.store, self.cluster, 1, settings=self.settings).run_tick()
        self.forget()

    def forget(self) -> None:
        if self._forgets:
            with self.store.begin() as tx:
                tx.exec_driver_sql("DELETE FROM audit")

    def register(
        self,
        mode: ChainMode = ChainMode.STANDBY,
        *,
        job_id: JobId | None = None,
        uid: int = ALICE,
        user: str = "alice",
    ) -> None:
        new = Registration(chain_id=CHAIN, links=20, mode=mode, job_id=job_id)
        with self.store.begin() as tx:
            chain_service.register_chain(tx, 1, new, uid=uid, user=user, now=NOW)

    def ask(self, target: ChainState) -> None:
        with self.store.begin() as tx:
            found = chains.get_chain(tx, 1, CHAIN)
            chain_service.request_state(tx, 1, found, target, now=self.cluster.at, actor="alice")

    def mode(self, mode: Mode) -> None:
        with self.store.begin() as tx:
            clusters.set_mode(tx, 1, mode)

    def outcome(self) -> object:
        found = chain(self.store)
        return found.state, found.cause, found.at_risk, found.user, self.cluster.moves


def undone_each_minute(scene: Scene) -> object:
    scene.tick()
    scene.ask(ChainState.PAUSED)
    for _ in range(3 * MOST_TRIES):
        scene.tick()
    assert len(scene.cluster.moves) == MOST_TRIES
    return scene.outcome()


def refused(scene: Scene) -> object:
    scene.tick()
    scene.cluster.errors["suspend"] = ClusterRefused("Access denied")
    scene.ask(ChainState.PAUSED)
    for _ in range(5):
        scene.tick()
    assert len(scene.cluster.moves) == 1
    return scene.outcome()


def resumed(scene: Scene) -> object:
    """Mirage's own hold is lifted."""
    scene.tick()
    scene.ask(ChainState.PAUSED)
    scene.tick()
    scene.show(running(1), held(2, reason="JobHeldUser", priority=0))
    scene.tick()
    scene.ask(ChainState.ACTIVE)
    scene.tick()
    assert [move[0] for move in scene.cluster.moves] == ["suspend", "resume"]
    return scene.outcome()


def cancelled(scene: Scene) -> object:
    scene.tick()
    scene.ask(ChainState.CANCELLED)
    scene.tick()
    assert [move[:2] for move in scene.cluster.moves] == [("cancel", 12), ("cancel", 11)]
    return scene.outcome()


def gone_twice(scene: Scene) -> object:
    scene.tick()
    gone = ended(2, JobState.CANCELLED, None, NOW + MINUTE)
    scene.show(running(1), gone)
    scene.tick()
    scene.show(running(1), held(2, job_id=JobId(19)))
    scene.tick()
    scene.show(running(1), ended(2, JobState.CANCELLED, None, NOW + 200, job_id=JobId(19)))
    scene.tick()
    assert chain(scene.store).state is ChainState.PAUSED
    return scene.outcome()


def failures_that_were_seen(scene: Scene) -> object:
    """What its owner has resumed is not held against the chain again."""
    fast = [ended(i, JobState.FAILED, NOW + 99 * i, NOW + 99 * i + 30) for i in (1, 2, 3)]
    assert len(fast) == FAST_FAILURES
    behind = held(len(fast) + 1)
    scene.show(*fast, behind)
    scene.tick(500)
    assert chain(scene.store).state is ChainState.PAUSED
    scene.ask(ChainState.ACTIVE)
    scene.tick(2 * GRACE_S)
    assert chain(scene.store).state is ChainState.ACTIVE
    return scene.outcome()


def told_of_by_somebody_else(scene: Scene) -> object:
    """mallory has seen the mark, and names a job of alice's."""
    scene.register(job_id=JobId(11), uid=666, user="mallory")
    scene.tick()
    assert chain(scene.store).user == "alice"
    return scene.outcome()


def submitted_by_the_running_link(scene: Scene) -> object:
    scene.register(ChainMode.SUBMIT)
    scene.mode(Mode.ACT)
    scene.show(running(1))
    scene.tick()
    scene.tick()
    with scene.store.read() as tx:
        asked = get_submit_instruction(
            tx, 1, chains.get_chain(tx, 1, CHAIN), scene.cluster.at, MINUTE
        )
    assert asked.submit_now
    return scene.outcome()


def demoted(scene: Scene) -> object:
    """A demotion ends by itself a day later; until then nothing is moved."""
    limits = Limits(demote_after=1, demote_error_s=10.0)
    scene.settings = DecisionSettings(get_policy=Always, default_policy="always", limits=limits)
    scene.tick()
    scene.mode(Mode.ACT)
    with scene.store.begin() as tx:
        wrong = Forecast(p50_s=9999.0)
        row = ForecastRow(chain_id=CHAIN, index=2, source="always", at=NOW, forecast=wrong)
        handover_forecasts.record_forecasts(tx, 1, [row])
        handover_forecasts.settle_forecast(tx, 1, CHAIN, 2, 0)
    begins, limit = scene.cluster.at, {"time_limit_s": LASTS_S + 60 * MINUTE}
    scene.show(running(2, begins, **limit), held(3, **limit))
    moved = []
    for after_s in (MINUTE, MINUTE, LASTS_S):
        scene.tick(after_s)
        moved.append(bool(scene.cluster.moves))
    assert moved == [False, False, True]
    return scene.outcome()


STORIES: tuple[Callable[[Scene], object], ...] = (
    undone_each_minute,
    refused,
    resumed,
    cancelled,
    gone_twice,
    failures_that_were_seen,
    told_of_by_somebody_else,
    submitted_by_the_running_link,
    demoted,
)


@pytest.fixture
def scenes(sqlite_template: Path, tmp_path: Path) -> Iterator[tuple[Scene, Scene]]:
    """The same twice: with its audit, and one that forgets it."""
    urls = []
    for name in ("kept", "forgotten"):
        copy(sqlite_template, tmp_path / f"{name}.db")
        urls.append(f"sqlite:///{tmp_path}/{name}.db")
    with closing(Store(urls[0])) as kept, closing(Store(urls[1])) as forgotten:
        yield Scene(kept, forgets=False), Scene(forgotten, forgets=True)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_action_changes_where_the_audit_is_emptied_between_looks(
    scenes: tuple[Scene, Scene], story: Callable[[Scene], object]
) -> None:
    kept, forgotten = scenes
    assert story(kept) == story(forgotten)
