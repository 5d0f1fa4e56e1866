"""Mirage tokens: each is shown once, stored as a hash, and ends by its date or when revoked."""

import hashlib
import hmac
import re
import secrets
from dataclasses import replace

from mirage.database.access import tokens
from mirage.database.access.tokens import Token
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import NOBODY_UID, Caller, Role
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import InputError, NotIdentified

PREFIX = "mirage_"
"""The beginning of each token; scanners for leaked secrets recognize tokens by it."""

MAX_LIFETIME_S = 366 * 86400
MAX_NAME_CHARS = 64

_SHAPE = re.compile(r"mirage_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


def create_token(tx: Transaction, request: Token, *, cluster_id: int) -> tuple[Token, str]:
    """Store a new token, and return its row and the token's text, which is stored nowhere.

    `request` has the new token's fields; its id and digest are replaced. Raises InputError for a
    request that is not valid.
    """
    _check_request(request)
    secret = secrets.token_urlsafe(32)
    token = replace(request, token_id=secrets.token_hex(6), digest=_hash_secret(secret))
    tokens.add_token(tx, token)
    _write_audit(tx, cluster_id, token, "token created", token.created_at, token.created_by)
    return token, f"{PREFIX}{token.token_id}_{secret}"


def _check_request(request: Token) -> None:
    name = request.name
    if not 1 <= len(name) <= MAX_NAME_CHARS or escape_unprintable(name) != name:
        raise InputError(
            f"a token's name has 1 to {MAX_NAME_CHARS} characters and no control characters"
        )
    if request.role in {Role.USER, Role.COORDINATOR} and request.uid == NOBODY_UID:
        raise InputError(f"a token of role {request.role} belongs to a user: give --user")
    if not 0 < request.expires_at - request.created_at <= MAX_LIFETIME_S:
        raise InputError("a token's life is at least 1 second and at most 366 days")


def revoke_token(tx: Transaction, token_id: str, *, cluster_id: int, now: int, actor: str) -> Token:
    """End a token at once, and return it. Raises NotFound if there is no such token."""
    token = tokens.revoke_token(tx, token_id, now=now)
    _write_audit(tx, cluster_id, token, "token revoked", now, actor)
    return token


def authenticate_token(tx: Transaction, text: str, *, cluster_id: int, now: int) -> Caller:
    """Return the caller whose token this is.

    Raises NotIdentified for a token that is not valid, or not valid on this cluster.
    """
    shape = _SHAPE.fullmatch(text)
    token = None if shape is None else tokens.find_token(tx, shape["id"])
    secret = "" if shape is None else shape["secret"]
    # An unknown token is compared as well, so that the time taken does not tell which ids exist.
    is_match = hmac.compare_digest(_hash_secret(secret), "" if token is None else token.digest)
    if token is None or not is_match:
        raise NotIdentified("there is no such token")
    return resolve_caller(token, cluster_id=cluster_id, now=now)


def resolve_caller(token: Token, *, cluster_id: int, now: int) -> Caller:
    """Return the caller who has shown this token.

    Raises NotIdentified for a token that is revoked, has expired or is for another cluster.
    """
    credential = f"token {token.token_id}"
    if token.revoked_at is not None:
        raise NotIdentified("the token was revoked", credential)
    if token.expires_at <= now:
        raise NotIdentified("the token has expired", credential)
    if token.cluster_id not in {None, cluster_id}:
        raise NotIdentified("the token is for another cluster", credential)
    return Caller(
        token.uid,
        token.user or f"token {token.name}",
        via=f"token {token.token_id}",
        role=token.role,
        read_only=token.read_only or token.role is Role.VIEWER,
    )


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _write_audit(
    tx: Transaction, cluster_id: int, token: Token, event: str, now: int, actor: str
) -> None:
    detail: dict[str, object] = {"token": token.token_id, "name": token.name}
    detail |= {
        "role": token.role.value,
        "user": token.user,
        "read_only": token.read_only,
        "expires_at": token.expires_at,
    }
    audit.write_entry(tx, cluster_id, AuditEntry(at=now, actor=actor, event=event, detail=detail))


def get_cluster_id(tx: Transaction, name: str) -> int:
    """Return the cluster's number. Raises InputError if the database does not hold the cluster."""
    ids = {cluster: cluster_id for cluster_id, cluster in clusters.list_cluster_names(tx).items()}
    if name not in ids:
        raise InputError(
            f"no cluster {name!r} in this database; name one of these: {', '.join(ids)}"
        )
    return ids[name]
