"""The looks of several nights: a challenger, its judgement on newer days, and nights cut short."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.database.chains import chains
from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.domain.chain import ChainId, LinkState
from mirage.errors import InputError
from mirage.lab.learning import candidates
from mirage.lab.learning.run_folder import move_folder
from mirage.lab.training.trainers import FamilyName
from mirage.policies import registry
from tests.support.chains import make_chain, make_link
from tests.support.episodes.tables import DAY_S, MONDAY
from tests.support.learning.site import Site, open_site
from tests.support.learning.site_log import LONG_S, build_params

DAYS = 29


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a site that has learned once, and what came of it."""
    folder = tmp_path_factory.mktemp("first")
    with open_site(folder) as site:
        site.log_days(DAYS)
        return folder, site.look(DAYS)


@pytest.fixture
def challenged(
    first_night: tuple[Path, dict[str, Any]], tmp_path: Path
) -> Iterator[tuple[Site, str]]:
    """A copy of that site on which xgboost stands for promotion, whatever came of the night."""
    folder = tmp_path / "site"
    shutil.copytree(first_night[0], folder)
    with open_site(folder) as site:
        (made,) = (folder / "learn/candidates/xgboost").iterdir()
        for old in site.list_challenges():
            with site.store.begin() as tx:
                challenges.close_challenge(
                    tx, old.id, state=ChallengeState.DROPPED, at=1, evidence={}
                )
        move_folder(made, folder / "models/site-lab/1")
        model = "models/site-lab/1"
        with site.store.begin() as tx:
            challenges.start_challenge(tx, 1, model=model, champion=None, at=MONDAY + DAYS * DAY_S)
        yield site, model


def test_a_run_ends_by_the_clock_of_its_site(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.log_days(2)
        site.look(2)
        with site.store.read() as tx:
            (run,) = learning_runs.read_runs(tx, 1, most=1)
        assert run.ended_at is not None
        assert 0 <= run.ended_at - (MONDAY + 2 * DAY_S) < DAY_S


def test_shapes_of_too_short_a_history_do_not_stand(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.log_days(9)
        before = site.look(9)
        assert before["state"] == "nothing-to-do"
        assert "long jobs" in before["shapes"][0]["why"]
        for number in range(3):
            add_chain(site, f"ann{number}", 1001, 3, 900_000 + 10 * number)
        shapes = site.look(10)["shapes"]
        assert [shape["why"].split(",")[0] for shape in shapes] == [
            "chains of 3 owner(s) ask for it"
        ]


def test_a_night_ends_with_a_verdict(first_night: tuple[Path, dict[str, Any]]) -> None:
    folder, document = first_night
    assert document["state"] == "done"
    assert document["trained_at"] == MONDAY + DAYS * DAY_S
    with open_site(folder) as site:
        assert site.list_states() == [RunState.DONE]


def test_a_challenger_is_judged_only_when_its_days_can_be_replayed(
    challenged: tuple[Site, str],
) -> None:
    site, model = challenged
    site.log_days(DAYS + 13)
    document = site.look(DAYS + 20)
    assert document["settled"] == []
    assert document["state"] == "nothing-to-do"
    assert f"{model} stands for promotion" in document["sentence"]


def add_chain(site: Site, user: str, uid: int, day: int, job_id: int) -> None:
    """A hand-over of the site's own, of two jobs of the learned shape."""
    asked = {"nodes": 2, "time_limit_s": LONG_S, "partition": build_params().partitions[0].name}
    began = MONDAY + day * DAY_S
    with site.store.begin() as tx:
        chain_id = ChainId(user)
        chains.save_chain(tx, 1, make_chain(chain_id, user=user, uid=uid))
        for index in (1, 2):
            start = began + (index - 1) * LONG_S
            link = make_link(
                chain_id,
                index,
                job_id + index,
                state=LinkState.ENDED,
                start=start,
                end=start + LONG_S,
                **asked,
            )
            chains.save_link(tx, 1, link)


def test_after_its_time_in_shadow_a_challenger_is_judged_beside_the_rules(
    challenged: tuple[Site, str],
) -> None:
    site, model = challenged
    site.log_days(DAYS + 22)
    add_chain(site, "ann", 1001, DAYS + 3, 900_000)
    document = site.look(DAYS + 23)
    (sentence,) = document["settled"]
    assert sentence.startswith(f"{model} was judged")
    newest = site.list_challenges()[0]
    evidence = newest.evidence
    assert (newest.model, evidence["judgements"]) == (model, 1)
    assert {"challenger", "champion", "twin", "quantile"} <= set(evidence["cost_h"])
    own = list((site.folder / "learn/tables").glob("*/*/*.own-*.npz"))
    assert len([path for path in own if "twin" not in path.name]) == 1


def test_the_model_in_use_is_judged_when_a_new_week_can_be_replayed(
    challenged: tuple[Site, str],
) -> None:
    site, model = challenged
    registry.promote_version(site.folder / model)
    site.log_days(DAYS + 22)
    document = site.look(DAYS + 23)
    assert any(s.startswith(f"{model} stays in use") for s in document["settled"]), document
    assert site.list_challenges()[0].state is ChallengeState.PROMOTED
    again = site.look(DAYS + 24)
    assert again["settled"] == []


def test_a_fault_is_kept_and_the_next_look_goes_on(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.log_days(DAYS)
        with pytest.raises(InputError, match="more nodes than it has"):
            site.look(DAYS, params=replace(build_params(), nodes=1))
        assert site.list_states() == [RunState.FAILED]
        with site.store.read() as tx:
            (run,) = learning_runs.read_runs(tx, 1, most=1)
        assert "more nodes than it has" in run.document["error"]


def test_without_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find_spec(name: str) -> object | None:
        return None if name in ("xgboost", "torch") else object()

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    with pytest.raises(InputError, match=r"pip install 'mirage-provisioner\[trees\]'"):
        candidates.check_packages()
    # Jobs elsewhere may have them.
    dqn = [FamilyName.DQN]
    assert candidates.check_packages(dqn, is_local=False) == dqn


def test_a_folder_of_models_that_cannot_be_written_is_said_before_the_long_work(
    tmp_path: Path,
) -> None:
    with open_site(tmp_path) as site:
        site.log_days(2)
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match=r"set provision\.models_dir to a folder"):
            site.look(2, models=tmp_path / "file" / "models")


def test_a_run_of_a_shared_database_is_one_of_all_hosts(tmp_path: Path) -> None:
    with open_site(tmp_path) as site, site.store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        learning_runs.begin_run(tx, cluster_id, at=MONDAY, reason="no model")
    with open_site(tmp_path) as site:
        site.log_days(2)
        # SQLite is of one host, whose lock is free: the run that is stored was killed.
        assert site.look(2)["state"] == "nothing-to-do"
        assert site.list_states() == [RunState.NOTHING_TO_DO, RunState.INTERRUPTED]
