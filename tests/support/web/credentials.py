"""Creates the tokens and sessions with which tests log in."""

from mirage.database.access.tokens import Token
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Role
from mirage.web.identity import sessions, tokens
from tests.support.api.running import NOW, USERS


def token_of(store: Store, cluster_id: int, user: str, *, read_only: bool = False) -> str:
    """Return a new token of that user; a token of root has the role admin."""
    request = Token(
        name=f"browser of {user}",
        role=Role.ADMIN if user == "root" else Role.USER,
        user=user,
        uid=USERS[user],
        cluster_id=cluster_id,
        read_only=read_only,
        created_at=NOW,
        created_by="root",
        expires_at=NOW + 30 * 86400,
    )
    with store.begin() as tx:
        return tokens.create_token(tx, request, cluster_id=cluster_id)[1]


def session_of(store: Store, cluster_id: int, user: str, *, read_only: bool = False) -> str:
    """Log that user in, and return the secret of the session, which is the cookie's value."""
    token = token_of(store, cluster_id, user, read_only=read_only)
    with store.begin() as tx:
        return sessions.begin_session(tx, token, cluster_id=cluster_id, now=NOW).secret
