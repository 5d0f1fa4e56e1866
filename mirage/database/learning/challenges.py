"""Stores the challenges: the models that decided in shadow beside the champion, and what became of
each. The champion is the promoted model of the site."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Row, insert, or_, select, update

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.learning_tables import challenges as table
from mirage.errors import IllegalTransition, NotFound


class ChallengeState(StrEnum):
    SHADOW = "shadow"
    """It decides in shadow."""
    PROPOSED = "proposed"
    """It was cheaper, and waits for an admin."""
    PROMOTED = "promoted"
    DROPPED = "dropped"
    """It was not cheaper."""
    ROLLED_BACK = "rolled-back"
    """It was promoted, and taken back later."""
    DECLINED = "declined"
    """An admin declined it."""

    @property
    def is_standing(self) -> bool:
        return self in (ChallengeState.SHADOW, ChallengeState.PROPOSED)


_STANDING = tuple(state for state in ChallengeState if state.is_standing)
_BEFORE = {
    ChallengeState.PROPOSED: (ChallengeState.SHADOW,),
    ChallengeState.PROMOTED: _STANDING,
    ChallengeState.DROPPED: _STANDING,
    ChallengeState.DECLINED: _STANDING,
    ChallengeState.ROLLED_BACK: (ChallengeState.PROMOTED,),
}
"""From which states a challenge comes into each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    id: int
    model: str
    """models/NAME/VERSION."""
    champion: str | None
    """The promoted model when the challenge began; None: there was none."""
    proposed_at: int
    """Since when it decides in shadow."""
    judged_at: int | None
    """When it came into its state; None while it decides in shadow."""
    state: ChallengeState
    intended: ChallengeState | None = None
    """The state that is being brought about: the files may be changed already. A look that finds
    it brings it about (`provision.learning.model_promoter`)."""
    decided_by: str = ""
    """Who brought it into its state: `mirage`, or an admin; empty: nobody yet."""
    evidence: Mapping[str, Any] = field(default_factory=dict)


def start_challenge(
    tx: Transaction, cluster_id: int, *, model: str, champion: str | None, at: int
) -> int:
    """Store a model that decides in shadow from now on, and return the challenge's id.

    Raises IllegalTransition while another challenge stands: there is one at a time.
    """
    standing = find_standing_challenge(tx, cluster_id)
    if standing is not None:
        raise IllegalTransition(
            f"{standing.model} stands since before: one challenger at a time decides in shadow"
        )
    return add_challenge(
        tx, cluster_id, model=model, champion=champion, at=at, state=ChallengeState.SHADOW
    )


def add_challenge(
    tx: Transaction,
    cluster_id: int,
    *,
    model: str,
    champion: str | None,
    at: int,
    state: ChallengeState,
) -> int:
    """Store a challenge in any state, and return its id: a model that was promoted by hand has not
    stood in shadow."""
    values = {
        "cluster_id": cluster_id,
        "model": model,
        "champion": champion,
        "proposed_at": at,
        "judged_at": None if state is ChallengeState.SHADOW else at,
        "state": state.value,
        "decided_by": "",
        "evidence": {},
    }
    changes.record_change(tx, cluster_id, Topic.QUEUE)
    return int(tx.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())


def find_standing_challenge(tx: Transaction, cluster_id: int) -> Challenge | None:
    """Return the challenge that decides in shadow or waits for an admin; None: there is none."""
    return _find_newest(tx, cluster_id, table.c.state.in_([state.value for state in _STANDING]))


def find_promotion(tx: Transaction, cluster_id: int, model: str) -> Challenge | None:
    """Return the newest challenge by which the model was promoted and that was not taken back."""
    promoted = table.c.state == ChallengeState.PROMOTED.value
    return _find_newest(tx, cluster_id, table.c.model == model, promoted)


def list_intended(tx: Transaction, cluster_id: int) -> list[Challenge]:
    """Return the challenges of which a state is being brought about, oldest first."""
    query = select(table).where(table.c.cluster_id == cluster_id, table.c.intended.is_not(None))
    return [_build_challenge(row) for row in tx.execute(query.order_by(table.c.id))]


def get_challenge(tx: Transaction, cluster_id: int, challenge_id: int) -> Challenge:
    """Return a challenge. Raises NotFound if there is none with this id."""
    challenge = _find_newest(tx, cluster_id, table.c.id == challenge_id)
    if challenge is None:
        raise NotFound(f"there is no challenge {challenge_id}")
    return challenge


def read_challenges(
    tx: Transaction, cluster_id: int, *, most: int, before: int | None = None
) -> list[Challenge]:
    """Return up to `most` challenges, newest first; `before`: only those with a smaller id."""
    query = select(table).where(table.c.cluster_id == cluster_id)
    if before is not None:
        query = query.where(table.c.id < before)
    rows = tx.execute(query.order_by(table.c.id.desc()).limit(most))
    return [_build_challenge(row) for row in rows]


def intend_state(
    tx: Transaction,
    challenge_id: int,
    *,
    state: ChallengeState,
    by: str,
    evidence: Mapping[str, Any],
) -> None:
    """Store the state that is about to be brought about, before any file changes.

    Raises IllegalTransition if the challenge cannot come into that state, or is about to come into
    another one.
    """
    values = {"intended": state.value, "decided_by": by, "evidence": dict(evidence)}
    _update_challenge(tx, challenge_id, state, values, table.c.intended.is_(None))


def forget_intention(tx: Transaction, challenge_id: int) -> None:
    """Forget the state that was to be brought about: it cannot be any more."""
    tx.execute(update(table).where(table.c.id == challenge_id).values(intended=None))


def record_judgement(tx: Transaction, challenge_id: int, *, evidence: Mapping[str, Any]) -> None:
    """Store the evidence of a challenger that goes on deciding in shadow.

    Raises IllegalTransition if it does not decide in shadow any more.
    """
    is_free = (table.c.intended.is_(None), table.c.state == ChallengeState.SHADOW.value)
    statement = update(table).where(table.c.id == challenge_id, *is_free)
    if not tx.execute(statement.values(evidence=dict(evidence))).rowcount:
        raise IllegalTransition(f"challenge {challenge_id} does not decide in shadow any more")


def close_challenge(
    tx: Transaction,
    challenge_id: int,
    *,
    state: ChallengeState,
    at: int,
    evidence: Mapping[str, Any],
    by: str = "mirage",
) -> None:
    """Store the state into which a challenge came, who brought it there, and the evidence.

    Raises IllegalTransition as `intend_state`.
    """
    values = {
        "state": state.value,
        "intended": None,
        "judged_at": at,
        "decided_by": by,
        "evidence": dict(evidence),
    }
    is_free = or_(table.c.intended.is_(None), table.c.intended == state.value)
    _update_challenge(tx, challenge_id, state, values, is_free)


def _update_challenge(
    tx: Transaction,
    challenge_id: int,
    state: ChallengeState,
    values: Mapping[str, Any],
    is_free: ColumnElement[bool],
) -> None:
    before = [earlier.value for earlier in _BEFORE[state]]
    statement = update(table).where(table.c.id == challenge_id, table.c.state.in_(before), is_free)
    row = tx.execute(statement.values(**values).returning(table.c.cluster_id)).first()
    if row is None:
        raise IllegalTransition(
            f"challenge {challenge_id} cannot become {state}: somebody else has settled it, or is "
            "about to"
        )
    changes.record_change(tx, row.cluster_id, Topic.QUEUE)


def _find_newest(
    tx: Transaction, cluster_id: int, *conditions: ColumnElement[bool]
) -> Challenge | None:
    query = select(table).where(table.c.cluster_id == cluster_id, *conditions)
    row = tx.execute(query.order_by(table.c.id.desc()).limit(1)).first()
    return None if row is None else _build_challenge(row)


def _build_challenge(row: Row[Any]) -> Challenge:
    return Challenge(
        id=row.id,
        model=row.model,
        champion=row.champion,
        proposed_at=row.proposed_at,
        judged_at=row.judged_at,
        state=ChallengeState(row.state),
        intended=None if row.intended is None else ChallengeState(row.intended),
        decided_by=row.decided_by,
        evidence=row.evidence,
    )
