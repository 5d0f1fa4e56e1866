"""Stores bearer tokens: what each may do, and a hash by which it is recognised."""

from dataclasses import dataclass, fields

from sqlalchemy import Row, insert, select, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import tokens
from mirage.domain.callers.caller import NOBODY_UID, Role
from mirage.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    token_id: str = ""
    """Public: lists, the audit and the token itself show it."""
    digest: str = ""
    """SHA-256 of the secret, in hex. The secret has 256 random bits, so no slow hash is needed."""
    name: str
    role: Role
    user: str = ""
    """Empty: the token belongs to no user of the cluster."""
    uid: int = NOBODY_UID
    cluster_id: int | None = None
    """None: the token is good for every cluster of this database."""
    read_only: bool = False
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None = None


_FIELDS = [field.name for field in fields(Token)]


def add_token(tx: Transaction, token: Token) -> None:
    values = {name: getattr(token, name) for name in _FIELDS} | {"role": token.role.value}
    tx.execute(insert(tokens).values(**values))


def find_token(tx: Transaction, token_id: str) -> Token | None:
    row = tx.execute(select(tokens).where(tokens.c.token_id == token_id)).first()
    return None if row is None else _build_token(row)


def list_tokens(tx: Transaction) -> list[Token]:
    """List all tokens, newest first, also those that have ended."""
    query = select(tokens).order_by(tokens.c.created_at.desc(), tokens.c.token_id)
    return [_build_token(row) for row in tx.execute(query)]


def revoke_token(tx: Transaction, token_id: str, *, now: int) -> Token:
    """Revoke the token. Revoking it again changes nothing. Raises NotFound for an unknown token."""
    is_valid = (tokens.c.token_id == token_id) & tokens.c.revoked_at.is_(None)
    tx.execute(update(tokens).where(is_valid).values(revoked_at=now))
    token = find_token(tx, token_id)
    if token is None:
        raise NotFound(f"there is no token {token_id}: `mirage token list` shows all tokens")
    return token


def _build_token(row: Row[tuple[object, ...]]) -> Token:
    values = {name: row._mapping[name] for name in _FIELDS}  # noqa: SLF001 - its public name
    return Token(**values | {"role": Role(row.role)})
