"""Turns what the site has learned into the API's answers."""

from mirage.database.learning.challenges import Challenge
from mirage.database.learning.learning_runs import LearningRun
from mirage.provision.learning.model_promoter import PromotionMode, count_judgements
from mirage.reports.learning_status import Champion, LearningStatus, explain_run
from mirage.web.api.schemas import learning_schemas as schemas
from mirage.web.shared.dependencies import to_instant, to_optional_instant


def serialize_learning(status: LearningStatus, mode: PromotionMode) -> schemas.Learning:
    champion, challenger = status.champion, status.challenger
    return schemas.Learning(
        promote=mode,
        champion=None if champion is None else _serialize_champion(champion),
        challenger=None if challenger is None else _serialize_challenge(challenger),
        figures={policy: dict(values) for policy, values in status.figures.items()},
        challenges=[_serialize_challenge(challenge) for challenge in status.challenges],
        runs=[_serialize_run(run) for run in status.runs],
    )


def _serialize_champion(champion: Champion) -> schemas.ChampionView:
    return schemas.ChampionView(
        model=champion.model,
        family=champion.family,
        promoted_at=to_optional_instant(champion.promoted_at),
        why=champion.why,
        previous=champion.previous,
        not_asked=champion.not_asked,
    )


def _serialize_challenge(challenge: Challenge) -> schemas.ChallengeView:
    evidence = challenge.evidence
    return schemas.ChallengeView(
        id=challenge.id,
        model=challenge.model,
        champion=challenge.champion,
        state=challenge.state,
        proposed_at=to_instant(challenge.proposed_at),
        judged_at=to_optional_instant(challenge.judged_at),
        decided_by=challenge.decided_by,
        judgements=count_judgements(challenge),
        why=str(evidence.get("why", "")),
        cost_h=evidence.get("cost_h", {}),
        against=[
            schemas.DifferenceView(against=name, **figures)
            for name, figures in evidence.get("against", {}).items()
        ],
    )


def _serialize_run(run: LearningRun) -> schemas.RunView:
    return schemas.RunView(
        id=run.id,
        begun_at=to_instant(run.begun_at),
        ended_at=to_optional_instant(run.ended_at),
        took_s=None if run.ended_at is None else run.ended_at - run.begun_at,
        state=run.state,
        reason=run.reason,
        outcome=explain_run(run),
        document=dict(run.document),
    )
