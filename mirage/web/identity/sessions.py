"""Browser sessions: the user shows a token at the login, and the browser then sends a cookie.

A session ends at the latest when its token ends.
"""

import hashlib
import secrets
from dataclasses import dataclass

from mirage.database.access import sessions, tokens
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import Caller
from mirage.errors import NotIdentified
from mirage.web.identity import tokens as token_service

MAX_LIFETIME_S = 12 * 3600
"""A session's longest life, a working day; after it the user logs in again."""

_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    secret: str
    """The cookie's value; it is stored nowhere else."""
    lifetime_s: int
    caller: Caller


def begin_session(tx: Transaction, token: str, *, cluster_id: int, now: int) -> Session:
    """Begin a session for the caller of this token. Raises NotIdentified if it is not valid."""
    caller = token_service.authenticate_token(tx, token, cluster_id=cluster_id, now=now)
    token_id = caller.via.removeprefix("token ")
    stored_token = tokens.find_token(tx, token_id)
    ends = (
        now + MAX_LIFETIME_S
        if stored_token is None
        else min(now + MAX_LIFETIME_S, stored_token.expires_at)
    )
    secret = secrets.token_urlsafe(_BYTES)
    sessions.add_session(tx, _hash_secret(secret), token_id, now=now, expires_at=ends)
    entry = AuditEntry(at=now, actor=caller.user, event="session begun", detail={"token": token_id})
    audit.write_entry(tx, cluster_id, entry)
    return Session(secret, ends - now, caller)


def find_session_caller(
    tx: Transaction, secret: str, *, cluster_id: int, now: int
) -> Caller | None:
    """Return the caller whose session this is; None if the session or its token has ended."""
    token_id = sessions.find_session_token(tx, _hash_secret(secret), now=now)
    stored_token = None if token_id is None else tokens.find_token(tx, token_id)
    if stored_token is None:
        return None
    try:
        return token_service.resolve_caller(stored_token, cluster_id=cluster_id, now=now)
    except NotIdentified:
        return None


def end_session(tx: Transaction, secret: str) -> None:
    sessions.remove_session(tx, _hash_secret(secret))


def _hash_secret(secret: str) -> str:
    # The secret has 256 random bits, so no slow hash is needed.
    return hashlib.sha256(secret.encode()).hexdigest()
