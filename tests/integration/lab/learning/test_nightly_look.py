"""The looks of several nights: a challenger, its judgement on newer days, and nights cut short."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from mirage.chains.notices.notices import Channel
from mirage.config.settings import LearnSettings
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.database.schema.tables import notices
from mirage.domain.chain import ChainId, LinkState
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks import block_task
from mirage.lab.blocks.block_executor import BlockWork, Part, PointsCallback
from mirage.lab.learning import candidates, week_tables
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.nightly_look import read_reason
from mirage.lab.learning.run_budget import Budget
from mirage.lab.learning.run_folder import move_folder, write_json
from mirage.lab.learning.settling import settle_models
from mirage.lab.training.artefact_training import train_artefact
from mirage.lab.training.trainers import FamilyName
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, GRAPH, read_card
from tests.support.chains import make_chain, make_link
from tests.support.episodes.tables import DAY_S, MONDAY
from tests.support.learning.site import SILENT, Site, open_site
from tests.support.learning.site_log import LONG_S, build_params
from tests.support.training.committed import save

DAYS = 29
MODEL, WORSE = "models/site-lab/1", "models/site-lab/2"
UNTRAINED = LearnSettings(every_days=99)
"""Rules by which a look trains nothing because of days that passed."""


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a site that has learned once, and what came of it."""
    folder = tmp_path_factory.mktemp("first")
    with open_site(folder) as site:
        site.log_days(DAYS)
        return folder, site.look(DAYS)


@contextmanager
def open_copy(night: Path, folder: Path) -> Iterator[Site]:
    """Open a copy of that site with xgboost as its model 1, whatever came of the night."""
    shutil.copytree(night, folder)
    with open_site(folder) as site:
        (made,) = (folder / "learn/candidates/xgboost").iterdir()
        for old in site.list_challenges():
            with site.store.begin() as tx:
                challenges.close_challenge(
                    tx, old.id, state=ChallengeState.DROPPED, at=1, evidence={}
                )
        move_folder(made, folder / MODEL)
        yield site


@pytest.fixture(scope="module")
def in_use(
    first_night: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The folder of a copy whose model is in use, and what came of the look three weeks later."""
    folder = tmp_path_factory.mktemp("later") / "site"
    with open_copy(first_night[0], folder) as site:
        registry.promote_version(folder / MODEL)
        site.log_days(DAYS + 22)
        return folder, site.look(DAYS + 23, rules=UNTRAINED)


@pytest.fixture
def challenged(
    first_night: tuple[Path, dict[str, Any]], tmp_path: Path
) -> Iterator[tuple[Site, str]]:
    """A copy on which the model stands for promotion."""
    with open_copy(first_night[0], tmp_path / "site") as site:
        with site.store.begin() as tx:
            challenges.start_challenge(tx, 1, model=MODEL, champion=None, at=MONDAY + DAYS * DAY_S)
        yield site, MODEL


def copy_tables(source: Path, site: Site) -> None:
    """Give a site the tables that another one has made of the same log."""
    shutil.copytree(source / "learn/tables", site.folder / "learn/tables", dirs_exist_ok=True)


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
    challenged: tuple[Site, str], in_use: tuple[Path, dict[str, Any]]
) -> None:
    site, model = challenged
    copy_tables(in_use[0], site)
    site.log_days(DAYS + 22)
    add_chain(site, "ann", 1001, DAYS + 3, 900_000)
    document = site.look(DAYS + 23, rules=UNTRAINED)
    (sentence,) = document["settled"]
    assert sentence.startswith(f"{model} was judged")
    newest = site.list_challenges()[0]
    evidence = newest.evidence
    assert (newest.model, evidence["judgements"]) == (model, 1)
    assert {"challenger", "champion", "twin", "quantile"} <= set(evidence["cost_h"])
    own = list((site.folder / "learn/tables").glob("*/*/*.own-*.npz"))
    assert len([path for path in own if "twin" not in path.name]) == 1


def test_the_model_in_use_is_judged_when_a_new_week_can_be_replayed(
    in_use: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = in_use
    (sentence,) = document["settled"]
    assert sentence.startswith(f"{MODEL} stays in use"), document
    assert document["not_asked"] is None
    with open_site(folder) as site:
        assert site.look(DAYS + 24, rules=UNTRAINED)["settled"] == []


def test_a_challenger_that_was_promoted_by_hand_is_not_judged(challenged: tuple[Site, str]) -> None:
    site, model = challenged
    registry.promote_version(site.folder / model)
    site.look(DAYS + 1, rules=UNTRAINED)
    assert site.list_challenges()[0].state is ChallengeState.PROMOTED


@pytest.fixture(scope="module")
def shuffled(
    first_night: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a model that has learned from shuffled outcomes: the hand-over of the shortest
    wait has that of the longest, and so on. Its card has the figures of the honest model."""
    folder = tmp_path_factory.mktemp("shuffled")
    tables = {}
    for path in sorted((first_night[0] / "learn/tables").glob("*/*/*-W??.npz")):
        table = EpisodeTable.load(path)
        by_wait = np.argsort(table.outcome_s[:, -1], kind="stable")
        table.outcome_s[by_wait] = table.outcome_s[by_wait[::-1]]
        tables[folder / path.parent.name / path.name] = table
    for path, table in tables.items():
        week_tables.save_with_twin(table, path)
    made = folder / WORSE
    train_artefact(
        candidates.build_request(FamilyName.XGBOOST, tables, made, is_final=False, note=""), SILENT
    )
    (honest,) = (first_night[0] / "learn/candidates/xgboost").iterdir()
    change_card(made, **{name: read_card(honest)[name] for name in ("metrics", "judged")})
    return made


@pytest.fixture
def later(in_use: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Site]:
    """A copy of the site whose model is in use, before the look of that night."""
    shutil.copytree(in_use[0], tmp_path / "site")
    with open_site(tmp_path / "site") as site:
        (site.folder / "learn/settled.json").unlink()
        yield site


def change_card(folder: Path, **fields: Any) -> None:
    (folder / CARD).write_text(json.dumps(read_card(folder) | fields))


def test_a_model_of_shuffled_labels_is_taken_back_within_the_hand_overs_that_the_docs_say(
    later: Site, shuffled: Path
) -> None:
    """docs/admin/learning.md: some 200 hand-overs."""
    shutil.copytree(shuffled, later.folder / WORSE)
    registry.promote_version(later.folder / WORSE)
    document = later.look(DAYS + 23, rules=UNTRAINED)
    (sentence,) = document["settled"]
    assert sentence.startswith(f"{WORSE} is taken back: it costs more")
    assert document["not_asked"] is None
    (challenge,) = [c for c in later.list_challenges() if c.model == WORSE]
    assert challenge.state is ChallengeState.ROLLED_BACK
    (figures,) = challenge.evidence["taken_back"]["against"].values()
    assert figures["difference_h_ci"][0] > 0
    assert figures["handovers"] <= 200
    assert registry.find_promoted_version(later.folder / "models/site-lab") == "1"
    assert read_card(later.folder / WORSE)["why"].startswith("worse than ")
    assert "model taken back" in list_events(later)


def test_forecasts_that_left_their_band_are_a_reason_to_learn_before_the_time_is_over(
    later: Site,
) -> None:
    """The model in use forecasts a year at each hand-over."""
    forecast = read_card(later.folder / MODEL)["forecast"]
    year = {"shift": [9.0] * len(forecast["shift"]), "shift_by_nodes": {}}
    change_card(later.folder / MODEL, forecast=forecast | year)
    never = LearnSettings(promote="never", every_days=99)
    request = later.build_request(DAYS + 23, rules=never)
    assert read_reason(request).text.startswith("the next training is due")
    (sentence,) = settle_models(request, SILENT)
    assert sentence.startswith(f"{MODEL} stays in use: it costs more")
    reason = read_reason(request)
    assert reason.is_due
    assert reason.text == "pinball left its band: worse than quantile on 14 of the newest 14 days"


def test_a_model_in_use_that_is_never_asked_is_told_once(later: Site) -> None:
    """Its card says that it has learned from other numbers than those of this site."""
    high = read_card(later.folder / MODEL)["seen"]["high"]
    far = [value + 9 for value in high]
    change_card(later.folder / MODEL, seen={"low": far, "high": far})
    looks = [
        later.look(DAYS + day, rules=UNTRAINED, channels=(Channel.ADMINS,)) for day in (23, 24)
    ]
    (sentence,) = looks[0]["settled"]
    assert sentence.startswith(f"{MODEL} stays in use")
    assert "it was asked at 0 of 168 hand-overs, and the twin or a rule decided" in sentence
    for look in looks:
        assert look["not_asked"]["model"] == MODEL
        assert "is far from all that the model has learned from" in look["not_asked"]["why"]
    assert list_events(later).count("model not asked") == 1
    assert list_notices(later) == ["model-not-asked"]


def test_a_damaged_model_in_use_is_told_and_learning_goes_on(
    challenged: tuple[Site, str], in_use: tuple[Path, dict[str, Any]]
) -> None:
    """The challenger is judged against what decides in place of the damaged one."""
    site, model = challenged
    shutil.copytree(site.folder / model, site.folder / WORSE)
    registry.promote_version(site.folder / WORSE)
    (site.folder / WORSE / GRAPH).write_bytes(b"damaged")
    copy_tables(in_use[0], site)
    site.log_days(DAYS + 22)
    document = site.look(DAYS + 23, rules=UNTRAINED, channels=(Channel.ADMINS,))
    (sentence,) = document["settled"]
    assert sentence.startswith(f"{model} was judged")
    assert document["not_asked"]["why"].startswith(f"{WORSE} is in use, but decides nothing: ")
    assert "is not the file that card.json describes" in document["not_asked"]["why"]
    assert list_notices(site).count("model-not-asked") == 1


def list_events(site: Site) -> list[str]:
    with site.store.read() as tx:
        return [entry.event for entry in audit.list_entries(tx, 1, limit=99)]


def list_notices(site: Site) -> list[str]:
    with site.store.read() as tx:
        return list(tx.execute(select(notices.c.event)).scalars())


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


def test_a_run_that_is_stored_as_running_was_killed(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        with site.store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, "lab")
            learning_runs.begin_run(tx, cluster_id, at=MONDAY, reason="no model")
        site.log_days(2)
        assert site.look(2)["state"] == "nothing-to-do"
        assert site.list_states() == [RunState.NOTHING_TO_DO, RunState.INTERRUPTED]


@dataclass(slots=True)
class FullCluster:
    """An executor whose jobs wait in Slurm for ever."""

    folder: Path
    works: list[str] = field(default_factory=list)
    """By which the jobs of each call are known again."""
    is_local: bool = False

    def make_blocks(self, work: BlockWork[Part], on_points: PointsCallback) -> None:
        self.works.append(block_task.save_input(self.folder, work.create_maker).name)
        while True:
            on_points(0)


def test_a_budget_that_ends_while_models_are_judged_is_no_fault_and_the_next_look_goes_on(
    tmp_path: Path,
) -> None:
    """Jobs that came meanwhile do not change what the jobs in Slurm were given."""
    cluster = FullCluster(tmp_path / "shared")
    over = Budget(wall_s=0.0, memory_gib=4, processes=2, is_local=False)
    shape = ChainShape(partition="", nodes=2, time_limit_s=LONG_S)
    with open_site(tmp_path) as site:
        save(site.folder / MODEL)
        (site.folder / "learn").mkdir()
        shapes = {"at": MONDAY + DAYS * DAY_S, "shapes": [shape.build_document()], "notes": []}
        write_json(site.folder / "learn/shapes.json", shapes)
        with site.store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, "lab")
            began = MONDAY + DAYS * DAY_S
            challenges.start_challenge(tx, cluster_id, model=MODEL, champion=None, at=began)
        for day in (22, 23):
            site.log_days(DAYS + day)
            look = site.look(DAYS + day, rules=UNTRAINED, executor=cluster, budget=over)
            assert look["state"] == "interrupted"
            assert look["sentence"] == "The budget of time is spent, and the next run goes on."
            assert look["reason"] == "models are judged on newer days"
        assert site.list_states() == [RunState.INTERRUPTED] * 2
    first, second = cluster.works
    assert first == second
