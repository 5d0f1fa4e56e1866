"""Stores the sessions of browsers: the token that opened a session, and when it ends."""

from sqlalchemy import delete, insert, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import sessions


def add_session(tx: Transaction, digest: str, token_id: str, *, now: int, expires_at: int) -> None:
    """Store a session. Sessions that have ended are deleted."""
    tx.execute(delete(sessions).where(sessions.c.expires_at <= now))
    tx.execute(
        insert(sessions).values(
            digest=digest, token_id=token_id, created_at=now, expires_at=expires_at
        )
    )


def find_session_token(tx: Transaction, digest: str, *, now: int) -> str | None:
    """Return the id of the session's token; None: there is no such session, or it has ended."""
    is_open = (sessions.c.digest == digest) & (sessions.c.expires_at > now)
    token_id = tx.scalar(select(sessions.c.token_id).where(is_open))
    return None if token_id is None else str(token_id)


def remove_session(tx: Transaction, digest: str) -> None:
    tx.execute(delete(sessions).where(sessions.c.digest == digest))
