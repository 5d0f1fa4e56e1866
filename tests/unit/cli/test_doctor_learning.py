"""What `mirage doctor` says of learning."""

from contextlib import closing
from pathlib import Path
from time import time

from mirage.cli.doctor.finding import Severity
from mirage.cli.doctor.learning_checks import check_learning
from mirage.config.settings import Settings
from mirage.database.jobs import queue_sums
from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.policies import registry
from mirage.policies.models.artefact import GRAPH
from tests.support.training.committed import save

DAY_S = 86400


def watched(settings: Settings, days: float) -> None:
    with closing(Store(settings.database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        queue_sums.add_snapshot(tx, cluster_id, int(time() - days * DAY_S), {})


def run(settings: Settings, state: RunState, *, days_ago: float = 0.5, error: str = "") -> None:
    with closing(Store(settings.database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        at = int(time() - days_ago * DAY_S)
        run_id = learning_runs.begin_run(tx, cluster_id, at=at, reason="no model")
        document = {"error": error} if error else {"sentence": "nothing was better"}
        learning_runs.finish_run(tx, run_id, at=at + 60, state=state, document=document)


def test_a_new_installation_has_time(settings: Settings) -> None:
    assert check_learning(settings) == (Severity.GOOD, "no run of learning yet")
    watched(settings, 1)
    assert check_learning(settings) == (Severity.GOOD, "no run of learning yet")


def test_one_that_never_learned_is_told_how(settings: Settings) -> None:
    watched(settings, 3)
    verdict, words = check_learning(settings)
    assert verdict is Severity.WARNING
    assert "systemctl enable --now mirage-learn.timer" in words


def test_learning_that_is_off_is_off(settings: Settings) -> None:
    watched(settings, 30)
    off = settings.model_copy(
        update={"learn": settings.learn.model_copy(update={"schedule": "off"})}
    )
    assert check_learning(off)[0] is Severity.GOOD


def test_a_run_that_failed_says_why(settings: Settings) -> None:
    run(settings, RunState.FAILED, error="the disk is full")
    verdict, words = check_learning(settings)
    assert verdict is Severity.WARNING
    assert words.endswith("it failed: the disk is full")


def test_runs_that_come_to_no_end_are_said_with_the_reason(settings: Settings) -> None:
    for hours_ago in (20, 16):
        run(settings, RunState.INTERRUPTED, days_ago=hours_ago / 24)
    assert check_learning(settings)[0] is Severity.GOOD, "the next one goes on"
    run(settings, RunState.INTERRUPTED, days_ago=0.5)
    verdict, words = check_learning(settings)
    assert verdict is Severity.WARNING
    assert "nothing was better" in words
    assert "None of the last 3 runs was finished" in words


def test_a_run_that_went_well_is_told_and_one_of_last_week_is_too_old(settings: Settings) -> None:
    run(settings, RunState.DONE)
    verdict, words = check_learning(settings)
    assert verdict is Severity.GOOD
    assert words.endswith("nothing was better")


def test_runs_that_have_ceased_are_missed(settings: Settings) -> None:
    run(settings, RunState.DONE, days_ago=7)
    verdict, words = check_learning(settings)
    assert verdict is Severity.WARNING
    assert "none since for two nights" in words


def test_a_proposal_waits(settings: Settings) -> None:
    run(settings, RunState.DONE)
    with closing(Store(settings.database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        challenge_id = challenges.start_challenge(
            tx, cluster_id, model="models/site-cluster/1", champion=None, at=int(time())
        )
        challenges.close_challenge(
            tx, challenge_id, state=ChallengeState.PROPOSED, at=int(time()), evidence={}
        )
    verdict, words = check_learning(settings)
    assert verdict is Severity.WARNING
    assert words.startswith("models/site-cluster/1 waits for an admin since")


def test_a_model_in_use_that_is_damaged_is_a_warning(settings: Settings, tmp_path: Path) -> None:
    run(settings, RunState.DONE)
    folder = save(tmp_path / "models" / f"site-{settings.cluster.name}" / "1")
    registry.promote_version(folder)
    provision = settings.provision.model_copy(update={"models_dir": tmp_path / "models"})
    with_models = settings.model_copy(update={"provision": provision})
    assert check_learning(with_models)[0] is Severity.GOOD
    (folder / GRAPH).write_bytes(b"damaged")
    registry.promote_version(folder, {"at": 1})  # the card has changed: the model is loaded anew
    verdict, words = check_learning(with_models)
    assert verdict is Severity.WARNING
    assert "decides nothing" in words
    assert "take it back on the page Admin" in words
