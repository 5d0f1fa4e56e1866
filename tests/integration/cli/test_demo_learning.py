"""`mirage demo --learn`: the site of a demo learns by night, and an admin is asked."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.database.learning import challenges
from mirage.database.learning.challenges import ChallengeState
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.lab.demo.comparison_plan import LEARNING
from mirage.lab.demo.demo_site import DemoSite
from mirage.lab.demo.learning_nights import LearningNights, Night
from mirage.lab.demo.scenario import Scenario
from mirage.lab.study_output import StudyOutput
from mirage.policies import registry
from tests.support.learning.site_log import build_params, build_site_jobs
from tests.support.mirage_process import run
from tests.support.training.committed import save

SILENT = StudyOutput(lambda _: None, lambda *_: nullcontext(lambda *_: None))
MODEL = "models/site-small/1"


@contextmanager
def open_nights(folder: Path, *, says_yes: bool) -> Iterator[LearningNights]:
    """Two nights of a small site at which MODEL is proposed."""
    plan = replace(LEARNING, chains=1, time_limit_s=2 * HOUR_S, tick_s=HOUR_S, longest_s=3 * DAY_S)
    stage = Scenario(build_params(), build_site_jobs(9))
    start = stage.first + DAY_S
    site = DemoSite.create_in(folder, stage.build_cluster(plan, start), pin=False, learns=True)
    service = site.service
    save(folder / MODEL)
    with closing(service.store):
        site.fill_cluster(start, lambda: None)
        with service.store.begin() as tx:
            challenge_id = challenges.start_challenge(
                tx, service.cluster_id, model=MODEL, champion=None, at=start
            )
            challenges.close_challenge(
                tx, challenge_id, state=ChallengeState.PROPOSED, at=start, evidence={"why": "costs"}
            )
        yield LearningNights(site=site, plan=plan, output=SILENT, says_yes=says_yes)


def list_nights(nights: LearningNights) -> list[Night]:
    return [step for step in nights.watch() if isinstance(step, Night)]


def test_without_yes_a_proposed_model_waits_for_an_admin(tmp_path: Path) -> None:
    with open_nights(tmp_path, says_yes=False) as nights:
        looks = list_nights(nights)
        assert [look.proposed for look in looks] == [MODEL, *[None] * (len(looks) - 1)]
        assert {look.promoted for look in looks} == {None}
        assert registry.find_promoted_version(tmp_path / "models/site-small") is None
        assert nights.explain_end(looks).startswith(f"{MODEL} is proposed: promote or decline it")
        assert not nights.compute_after()


def test_with_yes_a_proposed_model_comes_in_use_by_an_admins_word(tmp_path: Path) -> None:
    with open_nights(tmp_path, says_yes=True) as nights:
        first, *others = list_nights(nights)
        assert (first.promoted, {look.promoted for look in others}) == (MODEL, {None})
        assert registry.find_promoted_version(tmp_path / "models/site-small") == "1"
        assert nights.explain_end([first]).startswith(f"{MODEL} is in use")
        before, after = nights.compute_before(), nights.compute_after()
        assert before.keys() == after.keys() == {"reactive", "auto"}
        with nights.site.service.store.read() as tx:
            (challenge,) = challenges.read_challenges(tx, 1, most=9)
        assert challenge.decided_by == "admin of the demo"


def test_yes_without_learn_says_what_is_missing() -> None:
    done = run("demo", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "give --learn too" in done.err


def test_pins_leave_a_model_nothing_to_decide() -> None:
    done = run("demo", "--learn", "--pin")
    assert (done.code, done.out) == (2, "")
    assert "no model is asked where a job is pinned" in done.err


@pytest.mark.slow
def test_a_demo_of_a_day_says_what_it_would_take_to_learn(tmp_path: Path) -> None:
    words = "demo --learn --once --json --port 0 --chains 1 --until 2026-01-14"
    done = run(*words.split(), cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.code == 0, done.err
    outcome = json.loads(done.out)
    (night,) = outcome["nights"]
    assert night["history"]["jobs"] > 0
    assert [shape["name"] for shape in night["shapes"]] == ["batch: 1 node, 7-00:00:00"]
    assert (night["state"], night["proposed"]) == ("nothing-to-do", None)
    assert outcome["sentence"] == night["sentence"]
    assert night["sentence"].startswith("There is too little history to learn from: 8 days")
    assert (outcome["before"], outcome["after"]) == ({}, {})
    assert not list(tmp_path.glob("mirage-demo-*"))
