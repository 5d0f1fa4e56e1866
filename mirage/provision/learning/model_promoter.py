"""Proposes, promotes, drops, declines and takes back the models of the site.

A promotion changes files and rows. The intention is a row before any file changes, and each step
may be repeated. So after a crash between two steps the next look carries the intention out
(`settle_intentions`). The row of the new state, the line in the audit and the notice are one
transaction.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from mirage.chains.notices.notices import Channel, NoticeEvent, enqueue_admin_notice
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.learning import challenges
from mirage.database.learning.challenges import Challenge, ChallengeState
from mirage.database.schema.engine import Store, Transaction
from mirage.errors import IllegalTransition, InputError
from mirage.judging.challenge import (
    ChallengeVerdict,
    Judgement,
    decide_challenge,
    is_judgement_due,
)
from mirage.policies import registry, site_models

_log = structlog.get_logger(__name__)

MIRAGE = "mirage"
"""The actor of what nobody asked for."""
JUDGEMENTS = "judgements"
"""How often a challenger was judged, in the evidence of its challenge."""


class PromotionMode(StrEnum):
    """The setting `learn.promote`."""

    ASK = "ask"
    AUTO = "auto"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Who decides on a model."""

    actor: str = MIRAGE
    via: str | None = None
    """The credential by which an admin was identified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPromoter:
    """Changes which model of the site is in use."""

    store: Store
    cluster_id: int
    cluster: str
    models_dir: Path
    channels: tuple[Channel, ...] = ()
    """Where notices are sent; admins get those about models."""

    def find_champion(self) -> str | None:
        """Return the promoted model of the site; None: there is none."""
        return site_models.find_champion(self.cluster, self.models_dir)

    def find_due_challenge(self, *, shadow_s: int, now: int) -> Challenge | None:
        """Return the challenger whose judgement is due; None: there is none.

        A challenger that somebody has promoted by hand meanwhile is stored as promoted, and one
        whose files cannot be used any more as dropped.
        """
        with self.store.read() as tx:
            challenge = challenges.find_standing_challenge(tx, self.cluster_id)
        if challenge is None or challenge.state is not ChallengeState.SHADOW:
            return None
        if challenge.model == self.find_champion():
            why = "it was promoted by hand"
            self._close(challenge, ChallengeState.PROMOTED, challenge.evidence, why, now)
            return None
        try:
            registry.load_model(challenge.model, self.models_dir)
        except InputError as error:
            self._close(challenge, ChallengeState.DROPPED, challenge.evidence, str(error), now)
            return None
        is_due = is_judgement_due(
            proposed_at=challenge.proposed_at,
            judgements=count_judgements(challenge),
            shadow_s=shadow_s,
            now=now,
        )
        return challenge if is_due else None

    def settle_challenge(
        self, challenge: Challenge, verdict: ChallengeVerdict, *, mode: PromotionMode, now: int
    ) -> Judgement:
        """Carry out what the verdict means for the challenger: promote or propose it, drop it, or
        let it stand until the next judgement.

        Raises IllegalTransition if somebody else has settled it meanwhile.
        """
        judgements = count_judgements(challenge) + 1
        evidence = {**challenge.evidence, **verdict.build_evidence(), JUDGEMENTS: judgements}
        judgement, why = decide_challenge(verdict, judgements), verdict.explain()
        if judgement is Judgement.OPEN:
            with self.store.begin() as tx:
                challenges.record_judgement(tx, challenge.id, evidence=evidence)
        elif judgement is Judgement.NO_BETTER:
            self._close(challenge, ChallengeState.DROPPED, evidence, why, now)
        elif mode is PromotionMode.AUTO:
            self._promote(challenge, evidence, why, Decider(), now)
        elif mode is PromotionMode.ASK:
            self._close(challenge, ChallengeState.PROPOSED, evidence, why, now)
        else:
            why = f"learn.promote is never, so it is not promoted; it {why}"
            self._close(challenge, ChallengeState.DROPPED, evidence, why, now)
        return judgement

    def promote_challenger(self, model: str, *, decider: Decider, now: int) -> None:
        """Promote the model that was proposed. Doing it again changes nothing.

        Raises IllegalTransition if the model was not proposed.
        """
        challenge = self._find_standing(model)
        if challenge is None and self.find_champion() == model:
            return
        if challenge is None or challenge.state is not ChallengeState.PROPOSED:
            raise IllegalTransition(
                f"{model} is not proposed: `mirage models promote` compares any model and puts it "
                "in use"
            )
        self._promote(challenge, challenge.evidence, _get_why(challenge), decider, now)

    def decline_challenger(self, model: str, *, decider: Decider, now: int) -> None:
        """Decline the model that decides in shadow or was proposed.

        Raises IllegalTransition if there is no such challenger.
        """
        challenge = self._find_standing(model)
        if challenge is None:
            raise IllegalTransition(f"{model} neither decides in shadow nor is it proposed")
        why = f"{decider.actor} declined it"
        self._close(
            challenge, ChallengeState.DECLINED, challenge.evidence, why, now, decider=decider
        )

    def settle_champion(self, verdict: ChallengeVerdict, *, mode: PromotionMode, now: int) -> bool:
        """Take the champion back if it is worse than the rule, and return whether it was.

        With `never` nothing changes: whoever promotes by hand takes back by hand.
        """
        champion = self.find_champion()
        if champion is None or not verdict.is_worse or mode is PromotionMode.NEVER:
            return False
        why = f"worse than {verdict.rule}: it {verdict.explain()}"
        self._take_back(champion, verdict.build_evidence(), why, Decider(), now)
        return True

    def report_not_asked(self, model: str, says: str, now: int) -> None:
        """Report that the model in use decides nothing: a line in the audit, and a notice. `says`
        is a sentence with the reason and the remedy."""
        entry = AuditEntry(
            at=now, actor=MIRAGE, event="model not asked", detail={"model": model, "why": says}
        )
        with self.store.begin() as tx:
            audit.write_entry(tx, self.cluster_id, entry)
            enqueue_admin_notice(
                tx, self.cluster_id, self.channels, NoticeEvent.MODEL_NOT_ASKED, says, now
            )
        _log.warning("model not asked", model=model, why=says)

    def take_back_champion(self, model: str, *, decider: Decider, now: int) -> None:
        """Take the model out of use; the one before it comes back.

        Raises IllegalTransition if the model is not in use.
        """
        if self.find_champion() != model:
            raise IllegalTransition(f"{model} is not the model of this site that is in use")
        self._take_back(model, {}, f"{decider.actor} took it back", decider, now)

    def settle_intentions(self, now: int) -> list[str]:
        """Carry out what was intended when a process ended in the middle; return the models."""
        with self.store.read() as tx:
            intended = challenges.list_intended(tx, self.cluster_id)
        for challenge in intended:
            # Another process may carry it out at this moment: then it is settled.
            with suppress(IllegalTransition):
                self._carry_out(challenge, Decider(actor=challenge.decided_by), now)
        return [challenge.model for challenge in intended]

    def _find_standing(self, model: str) -> Challenge | None:
        with self.store.read() as tx:
            challenge = challenges.find_standing_challenge(tx, self.cluster_id)
        return challenge if challenge is not None and challenge.model == model else None

    def _promote(
        self,
        challenge: Challenge,
        evidence: Mapping[str, Any],
        why: str,
        decider: Decider,
        now: int,
    ) -> None:
        registry.load_model(challenge.model, self.models_dir)
        before = registry.find_promoted_version(self._resolve(challenge.model).parent)
        intention = {**evidence, "before": before, "at": now, "why": why}
        self._intend(challenge.id, ChallengeState.PROMOTED, intention, decider, now)

    def _take_back(
        self, champion: str, figures: Mapping[str, Any], why: str, decider: Decider, now: int
    ) -> None:
        with self.store.begin() as tx:
            promotion = challenges.find_promotion(tx, self.cluster_id, champion)
            if promotion is None:  # it was promoted by hand
                challenge_id = challenges.add_challenge(
                    tx,
                    self.cluster_id,
                    model=champion,
                    champion=None,
                    at=now,
                    state=ChallengeState.PROMOTED,
                )
                promotion = challenges.get_challenge(tx, self.cluster_id, challenge_id)
        intention = {**promotion.evidence, "taken_back": {**figures, "at": now, "why": why}}
        self._intend(promotion.id, ChallengeState.ROLLED_BACK, intention, decider, now)

    def _intend(
        self,
        challenge_id: int,
        state: ChallengeState,
        evidence: Mapping[str, Any],
        decider: Decider,
        now: int,
    ) -> None:
        with self.store.begin() as tx:
            challenges.intend_state(
                tx, challenge_id, state=state, by=decider.actor, evidence=evidence
            )
            challenge = challenges.get_challenge(tx, self.cluster_id, challenge_id)
        self._carry_out(challenge, decider, now)

    def _carry_out(self, challenge: Challenge, decider: Decider, now: int) -> None:
        """Change the files as intended, then store that it was done.

        Gives the intention up if somebody has promoted another version since, or if the files are
        gone.
        """
        state = challenge.intended
        assert state is not None  # noqa: S101 - the caller has just stored or read it
        obstacle = self._explain_obstacle(challenge)
        if obstacle is not None:
            self._give_up(challenge, obstacle, now)
            return
        folder = self._resolve(challenge.model)
        if state is ChallengeState.PROMOTED:
            evidence = dict(challenge.evidence)
            record = _build_record(challenge, evidence)
            registry.promote_version(folder, record)
        else:
            taken_back = dict(challenge.evidence["taken_back"])
            came_back = registry.take_back_version(folder, _build_record(challenge, taken_back))
            evidence = {**challenge.evidence, "taken_back": taken_back | {"back": came_back}}
        self._close(challenge, state, evidence, _get_why(challenge), now, decider=decider)

    def _explain_obstacle(self, challenge: Challenge) -> str | None:
        """Explain why an intention cannot be carried out any more; None if it can."""
        try:
            folder = self._resolve(challenge.model)
        except InputError as error:
            return str(error)
        promoted = registry.find_promoted_version(folder.parent)
        expected: set[str | None] = {folder.name}
        if challenge.intended is ChallengeState.PROMOTED:
            expected |= {challenge.evidence.get("before")}
        else:
            expected |= {registry.read_previous_version(folder)}
        if promoted in expected:
            return None
        return f"somebody has changed which version is in use since: it is {promoted or 'none'}"

    def _give_up(self, challenge: Challenge, obstacle: str, now: int) -> None:
        if challenge.intended is ChallengeState.PROMOTED:
            with self.store.begin() as tx:
                challenges.forget_intention(tx, challenge.id)
            self._close(challenge, ChallengeState.DROPPED, challenge.evidence, obstacle, now)
            return
        self._close(challenge, ChallengeState.ROLLED_BACK, challenge.evidence, obstacle, now)

    def _close(
        self,
        challenge: Challenge,
        state: ChallengeState,
        evidence: Mapping[str, Any],
        why: str,
        now: int,
        *,
        decider: Decider | None = None,
    ) -> None:
        """Store the new state, its line in the audit and its notice, in one transaction."""
        decider = decider or Decider()
        says = explain_state(challenge.model, state, why)
        full_evidence = {**evidence, "why": why}
        with self.store.begin() as tx:
            if decider.via is not None:
                audit.set_audit_credential(tx, decider.via)
            challenges.close_challenge(
                tx, challenge.id, state=state, at=now, evidence=full_evidence, by=decider.actor
            )
            detail = {"model": challenge.model, **full_evidence}
            entry = AuditEntry(at=now, actor=decider.actor, event=AUDIT[state], detail=detail)
            audit.write_entry(tx, self.cluster_id, entry)
            self._notify(tx, state, says, now)
        _log.info(AUDIT[state], model=challenge.model, by=decider.actor, why=why)

    def _notify(self, tx: Transaction, state: ChallengeState, says: str, now: int) -> None:
        event = _NOTICES.get(state)
        if event is not None:
            enqueue_admin_notice(tx, self.cluster_id, self.channels, event, says, now)

    def _resolve(self, model: str) -> Path:
        return registry.resolve_folder(model, self.models_dir)


AUDIT = {
    ChallengeState.PROPOSED: "model proposed",
    ChallengeState.PROMOTED: "model promoted",
    ChallengeState.DROPPED: "challenger dropped",
    ChallengeState.DECLINED: "challenger declined",
    ChallengeState.ROLLED_BACK: "model taken back",
}
"""The event of each state in the audit."""

_NOTICES = {
    ChallengeState.PROPOSED: NoticeEvent.MODEL_PROPOSED,
    ChallengeState.PROMOTED: NoticeEvent.MODEL_PROMOTED,
    ChallengeState.ROLLED_BACK: NoticeEvent.MODEL_TAKEN_BACK,
}


def explain_state(model: str, state: ChallengeState, why: str) -> str:
    """Return a sentence on what became of a model, and what an admin may do."""
    match state:
        case ChallengeState.PROPOSED:
            return f"{model} is proposed: promote or decline it on the page Admin. It {why}"
        case ChallengeState.PROMOTED:
            return f"{model} is in use: {why}"
        case ChallengeState.ROLLED_BACK:
            return f"{model} is not in use any more: {why}"
    return f"{model} is {state}: {why}"


def count_judgements(challenge: Challenge) -> int:
    """Return how often the challenger was judged so far."""
    return int(challenge.evidence.get(JUDGEMENTS, 0))


def _get_why(challenge: Challenge) -> str:
    if challenge.intended is ChallengeState.ROLLED_BACK:
        return str(challenge.evidence["taken_back"]["why"])
    return str(challenge.evidence.get("why", ""))


def _build_record(challenge: Challenge, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a change, which is kept beside the versions (`registry`)."""
    return {
        "model": challenge.model,
        "event": str(challenge.intended),
        "challenge": challenge.id,
        "by": challenge.decided_by,
        **evidence,
    }
