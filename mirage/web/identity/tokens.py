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

LONGEST_S = 366 * 86400
LONGEST_NAME = 64

_SHAPE = re.compile(r"mirage_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


def create_token(tx: Transaction, asked: Token, *, cluster_id: int) -> tuple[Token, str]:
    """Store a new token, and return its row and the token's text, which is stored nowhere.

    The id and the digest of `asked` are replaced by new ones. Raises InputError if `asked` is not
    a valid request.
    """
    _check_request(asked)
    secret = secrets.token_urlsafe(32)
    made = replace(asked, token_id=secrets.token_hex(6), digest=_hash_secret(secret))
    tokens.add_token(tx, made)
    _write_audit(tx, cluster_id, made, "token created", made.created_at, made.created_by)
    return made, f"{PREFIX}{made.token_id}_{secret}"


def _check_request(asked: Token) -> None:
    name = asked.name
    if not 1 <= len(name) <= LONGEST_NAME or escape_unprintable(name) != name:
        raise InputError(
            f"a token's name has 1 to {LONGEST_NAME} characters and no control characters"
        )
    if asked.role in {Role.USER, Role.COORDINATOR} and asked.uid == NOBODY_UID:
        raise InputError(f"a token of role {asked.role} belongs to a user: give --user")
    if not 0 < asked.expires_at - asked.created_at <= LONGEST_S:
        raise InputError("a token's life is at least 1 second and at most 366 days")


def revoke_token(tx: Transaction, token_id: str, *, cluster_id: int, now: int, actor: str) -> Token:
    """End a token at once, and return it. Raises NotFound if there is no such token."""
    ended = tokens.revoke_token(tx, token_id, now=now)
    _write_audit(tx, cluster_id, ended, "token revoked", now, actor)
    return ended


def authenticate_token(tx: Transaction, given: str, *, cluster_id: int, now: int) -> Caller:
    """Return the caller whose token this is.

    Raises NotIdentified for a token that is not valid, or not valid on this cluster.
    """
    shape = _SHAPE.fullmatch(given)
    known = None if shape is None else tokens.find_token(tx, shape["id"])
    secret = "" if shape is None else shape["secret"]
    # An unknown token is compared as well, so that the time taken does not tell which ids exist.
    alike = hmac.compare_digest(_hash_secret(secret), "" if known is None else known.digest)
    if known is None or not alike:
        raise NotIdentified("there is no such token")
    return resolve_caller(known, cluster_id=cluster_id, now=now)


def resolve_caller(known: Token, *, cluster_id: int, now: int) -> Caller:
    """Return the caller who has shown this token.

    Raises NotIdentified for a token that is revoked, has expired or is for another cluster.
    """
    who = f"token {known.token_id}"
    if known.revoked_at is not None:
        raise NotIdentified("the token was revoked", who)
    if known.expires_at <= now:
        raise NotIdentified("the token has expired", who)
    if known.cluster_id not in {None, cluster_id}:
        raise NotIdentified("the token is for another cluster", who)
    return Caller(
        known.uid,
        known.user or f"token {known.name}",
        via=f"token {known.token_id}",
        role=known.role,
        read_only=known.read_only or known.role is Role.VIEWER,
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
    known = {known: cluster_id for cluster_id, known in clusters.list_cluster_names(tx).items()}
    if name not in known:
        raise InputError(
            f"no cluster {name!r} in this database; name one of these: {', '.join(known)}"
        )
    return known[name]
