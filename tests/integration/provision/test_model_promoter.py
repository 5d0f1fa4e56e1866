"""Models of the site are proposed, promoted, declined and taken back: files, rows, audit, notices.

A process may end between any two steps; the next look settles what it intended.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mirage.chains.notices.notices import Channel
from mirage.database.events import audit
from mirage.database.learning import challenges
from mirage.database.learning.challenges import Challenge, ChallengeState
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import notices
from mirage.errors import IllegalTransition, InputError, UnfitModel
from mirage.judging.challenge import (
    MOST_JUDGEMENTS,
    ChallengeVerdict,
    Judgement,
    judge_challenge,
    judge_champion,
)
from mirage.policies import registry
from mirage.policies.models import card_notes
from mirage.policies.models.artefact import CARD, GRAPH
from mirage.provision.learning.model_promoter import Decider, ModelPromoter, PromotionMode
from tests.support.training.committed import save
from tests.unit.judging.test_challenge import BETTER, outcomes

NOW, DAY_S = 1_800_000_000, 86400
FIRST, SECOND = "models/site-lab/1", "models/site-lab/2"
GOOD = judge_challenge(outcomes(BETTER))
LIKELY = judge_challenge(outcomes(BETTER | {"champion": 1.2}, days=14, noise_h=1.0))
BAD = judge_challenge(outcomes(BETTER | {"challenger": 9.0}))
WORSE = judge_champion(outcomes({"champion": 9.0, "quantile": 2.0}))
ADMIN = Decider(actor="root", via="token abc")


class Ended(BaseException):
    """The process ends here."""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for version in ("1", "2"):
        save(tmp_path / "models" / "site-lab" / version)
    return tmp_path / "models"


@pytest.fixture
def promoter(store: Store, cluster_id: int, models: Path) -> ModelPromoter:
    return ModelPromoter(
        store=store,
        cluster_id=cluster_id,
        cluster="lab",
        models_dir=models,
        channels=(Channel.OWNER, Channel.ADMINS, Channel.WEBHOOK),
    )


def challenge(promoter: ModelPromoter, model: str = FIRST) -> Challenge:
    with promoter.store.begin() as tx:
        challenge_id = challenges.start_challenge(
            tx, promoter.cluster_id, model=model, champion=promoter.find_champion(), at=NOW
        )
        return challenges.get_challenge(tx, promoter.cluster_id, challenge_id)


def settled(promoter: ModelPromoter, challenge_id: int) -> Challenge:
    with promoter.store.read() as tx:
        return challenges.get_challenge(tx, promoter.cluster_id, challenge_id)


def judge(
    promoter: ModelPromoter,
    of: Challenge,
    verdict: ChallengeVerdict,
    mode: PromotionMode = PromotionMode.AUTO,
) -> Challenge:
    promoter.settle_challenge(of, verdict, mode=mode, now=NOW + 14 * DAY_S)
    return settled(promoter, of.id)


def promote(promoter: ModelPromoter, model: str = FIRST) -> Challenge:
    return judge(promoter, challenge(promoter, model), GOOD)


def card(models: Path, version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((models / "site-lab" / version / CARD).read_text())
    return found


def events(promoter: ModelPromoter) -> list[str]:
    with promoter.store.read() as tx:
        return [entry.event for entry in audit.list_entries(tx, promoter.cluster_id)]


def told(promoter: ModelPromoter) -> list[tuple[str, str]]:
    with promoter.store.read() as tx:
        query = select(notices.c.channel, notices.c.event).order_by(notices.c.id)
        return [(row.channel, row.event) for row in tx.execute(query)]


def test_a_better_one_is_put_in_use_by_itself_where_the_site_said_so(
    promoter: ModelPromoter, models: Path
) -> None:
    found = promote(promoter)
    assert (found.state, found.decided_by) == (ChallengeState.PROMOTED, "mirage")
    assert promoter.find_champion() == FIRST
    noted = card(models, "1")
    assert (noted["previous"], noted["promoted_at"]) == (None, NOW + 14 * DAY_S)
    assert "than champion: -1." in noted["why"]
    (record,) = registry.list_promotions(models / "site-lab")
    assert (record["by"], record["challenge"]) == ("mirage", found.id)
    assert record["against"]["champion"]["days"] == 42
    assert events(promoter) == ["model promoted"]
    assert told(promoter) == [("admins", "model-promoted"), ("webhook", "model-promoted")]


def test_the_card_still_describes_its_graph(promoter: ModelPromoter, models: Path) -> None:
    before = card(models, "1")
    promote(promoter)
    after = card(models, "1")
    notes = ("previous", "promoted_at", "demoted_at", "why")
    assert {k: v for k, v in after.items() if k not in notes} == before
    assert registry.load_model("models/site-lab", models).name == FIRST
    assert sorted(path.name for path in (models / "site-lab" / "1").iterdir()) == [CARD, GRAPH]


def test_a_better_one_waits_for_an_admin_where_the_site_is_asked(
    promoter: ModelPromoter, models: Path
) -> None:
    found = judge(promoter, challenge(promoter), GOOD, PromotionMode.ASK)
    assert found.state is ChallengeState.PROPOSED
    assert promoter.find_champion() is None
    assert told(promoter)[0] == ("admins", "model-proposed")
    assert promoter.find_due_challenge(shadow_s=14 * DAY_S, now=NOW + 99 * DAY_S) is None
    promoter.promote_challenger(FIRST, decider=ADMIN, now=NOW + 20 * DAY_S)
    promoter.promote_challenger(FIRST, decider=ADMIN, now=NOW + 21 * DAY_S)
    assert promoter.find_champion() == FIRST
    assert settled(promoter, found.id).decided_by == "root"
    assert events(promoter) == ["model promoted", "model proposed"]
    with promoter.store.read() as tx:
        (newest, _) = audit.list_entries(tx, promoter.cluster_id)
    assert (newest.actor, newest.detail["via"]) == ("root", "token abc")


def test_where_nothing_is_ever_promoted_it_is_said_that_it_was_better(
    promoter: ModelPromoter,
) -> None:
    found = judge(promoter, challenge(promoter), GOOD, PromotionMode.NEVER)
    assert found.state is ChallengeState.DROPPED
    assert found.evidence["why"].startswith("learn.promote is never")
    assert promoter.find_champion() is None
    assert told(promoter) == []


def test_one_that_is_no_better_makes_room_for_the_next(promoter: ModelPromoter) -> None:
    found = judge(promoter, challenge(promoter), BAD)
    assert found.state is ChallengeState.DROPPED
    assert promoter.find_champion() is None
    challenge(promoter, SECOND)


def test_one_that_may_be_better_stands_until_its_last_judgement(promoter: ModelPromoter) -> None:
    of = challenge(promoter)
    for number in range(1, MOST_JUDGEMENTS + 1):
        now = NOW + number * 14 * DAY_S
        assert promoter.find_due_challenge(shadow_s=14 * DAY_S, now=now - 1) is None
        due = promoter.find_due_challenge(shadow_s=14 * DAY_S, now=now)
        assert due is not None
        judgement = promoter.settle_challenge(due, LIKELY, mode=PromotionMode.AUTO, now=now)
    assert judgement is Judgement.NO_BETTER
    assert settled(promoter, of.id).evidence["judgements"] == MOST_JUDGEMENTS


def test_one_that_is_not_proposed_is_not_promoted_by_the_way(promoter: ModelPromoter) -> None:
    challenge(promoter)
    for model in (FIRST, SECOND):
        with pytest.raises(IllegalTransition, match="is not proposed"):
            promoter.promote_challenger(model, decider=ADMIN, now=NOW)
    assert promoter.find_champion() is None


def test_an_admin_may_decline_one_at_any_time(promoter: ModelPromoter) -> None:
    of = challenge(promoter)
    promoter.decline_challenger(FIRST, decider=ADMIN, now=NOW)
    assert settled(promoter, of.id).state is ChallengeState.DECLINED
    with pytest.raises(IllegalTransition):
        promoter.decline_challenger(FIRST, decider=ADMIN, now=NOW)
    assert events(promoter) == ["challenger declined"]


def test_one_that_somebody_promoted_by_hand_is_not_judged(
    promoter: ModelPromoter, models: Path
) -> None:
    of = challenge(promoter)
    registry.promote_version(models / "site-lab" / "1")
    assert promoter.find_due_challenge(shadow_s=14 * DAY_S, now=NOW + 14 * DAY_S) is None
    assert settled(promoter, of.id).state is ChallengeState.PROMOTED


def test_a_champion_that_is_worse_makes_way_for_the_one_before(
    promoter: ModelPromoter, models: Path
) -> None:
    promote(promoter)
    found = promote(promoter, SECOND)
    assert card(models, "2")["previous"] == "1"
    assert card(models, "1")["demoted_at"] == NOW + 14 * DAY_S
    now = NOW + 40 * DAY_S
    assert promoter.settle_champion(WORSE, mode=PromotionMode.ASK, now=now)
    assert promoter.find_champion() == FIRST
    taken = card(models, "2")
    assert (taken["demoted_at"], card(models, "1")["demoted_at"]) == (now, None)
    assert taken["why"].startswith("worse than quantile")
    assert settled(promoter, found.id).state is ChallengeState.ROLLED_BACK
    assert events(promoter)[0] == "model taken back"
    assert told(promoter)[-1] == ("webhook", "model-taken-back")
    newest = registry.list_promotions(models / "site-lab")[0]
    assert (newest["model"], newest["event"]) == (SECOND, "rolled-back")


def test_without_one_before_the_rules_decide_again(promoter: ModelPromoter, models: Path) -> None:
    promote(promoter)
    promoter.take_back_champion(FIRST, decider=ADMIN, now=NOW + 40 * DAY_S)
    assert promoter.find_champion() is None
    assert registry.build_auto(models).candidates[0].name == "twin"
    with pytest.raises(IllegalTransition, match="not the model of this site that is in use"):
        promoter.take_back_champion(FIRST, decider=ADMIN, now=NOW + 41 * DAY_S)


def test_one_whose_files_are_gone_does_not_come_back(promoter: ModelPromoter, models: Path) -> None:
    promote(promoter)
    promote(promoter, SECOND)
    (models / "site-lab" / "1" / CARD).unlink()
    promoter.take_back_champion(SECOND, decider=ADMIN, now=NOW + 40 * DAY_S)
    assert promoter.find_champion() is None


def test_a_champion_promoted_by_hand_is_taken_back_too(
    promoter: ModelPromoter, models: Path
) -> None:
    registry.promote_version(models / "site-lab" / "1")
    registry.promote_version(models / "site-lab" / "2")
    assert promoter.settle_champion(WORSE, mode=PromotionMode.AUTO, now=NOW)
    assert promoter.find_champion() == FIRST


def test_a_champion_that_is_not_worse_stays_and_so_does_one_that_mirage_may_not_touch(
    promoter: ModelPromoter,
) -> None:
    promote(promoter)
    fine = judge_champion(outcomes({"champion": 1.0, "quantile": 2.0}))
    assert not promoter.settle_champion(fine, mode=PromotionMode.AUTO, now=NOW)
    assert not promoter.settle_champion(WORSE, mode=PromotionMode.NEVER, now=NOW)
    assert promoter.find_champion() == FIRST


def test_a_damaged_model_is_not_promoted(promoter: ModelPromoter, models: Path) -> None:
    of = challenge(promoter)
    (models / "site-lab" / "1" / GRAPH).write_bytes(b"cut off")
    with pytest.raises(UnfitModel):
        judge(promoter, of, GOOD)
    assert settled(promoter, of.id).intended is None
    assert promoter.find_champion() is None
    assert promoter.find_due_challenge(shadow_s=14 * DAY_S, now=NOW + DAY_S) is None
    dropped = settled(promoter, of.id)
    assert dropped.state is ChallengeState.DROPPED
    assert "is not the file" in dropped.evidence["why"]


STEPS = [
    (registry, "note_in_card"),
    (registry, "_set_promoted_version"),
    (challenges, "close_challenge"),
    (audit, "write_entry"),
]
"""What a promotion and a roll-back call, one after the other."""


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=[step for _, step in STEPS])
@pytest.mark.parametrize("takes_back", [False, True], ids=["promote", "take back"])
def test_what_a_process_intended_when_it_ended_is_settled_by_the_next_look(
    promoter: ModelPromoter,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[Any, str],
    *,
    late: bool,
    takes_back: bool,
) -> None:
    promote(promoter)
    of = promote(promoter, SECOND) if takes_back else challenge(promoter, SECOND)
    records = len(registry.list_promotions(models / "site-lab"))
    lines = len(events(promoter))
    at = NOW + 20 * DAY_S
    change = (
        partial(promoter.take_back_champion, SECOND, decider=ADMIN, now=at)
        if takes_back
        else partial(promoter.settle_challenge, of, GOOD, mode=PromotionMode.AUTO, now=at)
    )
    with monkeypatch.context() as patched:
        patched.setattr(*step, ends(getattr(*step), late=late))
        with pytest.raises(Ended):
            change()
    assert promoter.settle_intentions(NOW + 21 * DAY_S) == [SECOND]
    assert promoter.settle_intentions(NOW + 22 * DAY_S) == []
    assert promoter.find_champion() == (FIRST if takes_back else SECOND)
    found = settled(promoter, of.id)
    assert found.state is (ChallengeState.ROLLED_BACK if takes_back else ChallengeState.PROMOTED)
    assert len(registry.list_promotions(models / "site-lab")) == records + 1
    assert len(events(promoter)) == lines + 1
    assert card(models, "2")["demoted_at"] == (at if takes_back else None)
    assert card(models, "1")["demoted_at"] == (None if takes_back else at)


def ends(step: Callable[..., Any], *, late: bool) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        if late:
            step(*arguments, **named)
        raise Ended

    return run


def test_what_somebody_promoted_since_is_not_undone_by_an_old_intention(
    promoter: ModelPromoter, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(models / "site-lab" / "3")
    promote(promoter)
    of = challenge(promoter, SECOND)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "note_in_card", ends(card_notes.note_in_card, late=False))
        with pytest.raises(Ended):
            promoter.settle_challenge(of, GOOD, mode=PromotionMode.AUTO, now=NOW)
    registry.promote_version(models / "site-lab" / "3")
    promoter.settle_intentions(NOW + DAY_S)
    assert promoter.find_champion() == "models/site-lab/3"
    assert settled(promoter, of.id).state is ChallengeState.DROPPED
    assert (
        "somebody has changed which version is in use" in settled(promoter, of.id).evidence["why"]
    )


def test_a_full_disk_leaves_the_intention_for_the_next_look(
    promoter: ModelPromoter, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise InputError("models/site-lab cannot be written: No space left on device")

    of = challenge(promoter)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "_set_promoted_version", full)
        with pytest.raises(InputError, match="No space left"):
            judge(promoter, of, GOOD)
    assert promoter.find_champion() is None
    assert settled(promoter, of.id).intended is ChallengeState.PROMOTED
    promoter.settle_intentions(NOW + DAY_S)
    assert promoter.find_champion() == FIRST
