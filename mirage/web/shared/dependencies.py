"""Defines the dependencies of routes: context, transaction, caller, freshness of the answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, cast

import structlog
from fastapi import Depends, Header, Request

from mirage.database.chains import chain_counts
from mirage.database.events import audit
from mirage.database.jobs import queue_sums
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import Caller, Principal, Role
from mirage.domain.callers.request_signing import build_signed_text, build_unnamed_text
from mirage.errors import NotAllowed, NotIdentified
from mirage.web.identity import tokens
from mirage.web.shared import quota
from mirage.web.shared.auth import cookie_auth
from mirage.web.shared.auth.unix_peer import get_peer_caller
from mirage.web.shared.context import ApiContext
from mirage.web.shared.problems import NOT_JSON, ProblemError, build_invalid_error


def get_context(request: Request) -> ApiContext:
    return cast(ApiContext, request.app.state.context)


Context = Annotated[ApiContext, Depends(get_context)]


async def _read_body(request: Request) -> bytes:
    # The only coroutine here, because Starlette gives the body to coroutines alone.
    return await request.body()


Body = Annotated[bytes, Depends(_read_body)]


def require_json(request: Request, body: Body) -> None:
    """Raise ProblemError for a body that is not declared as JSON, before the body is read."""
    if not body or request.method in {"GET", "HEAD"}:
        return
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ProblemError(
            NOT_JSON, f"the body's type is {media_type or 'missing'}: send application/json"
        )


def reject_nul(request: Request) -> None:
    """Raise a problem for a NUL in the query: PostgreSQL stores none in a text."""
    for name, value in request.query_params.multi_items():
        if "\0" in value:
            raise build_invalid_error("must not contain a NUL character", parameter=name)


def authorize_reader(
    request: Request,
    context: Context,
    body: Body,
    authorization: Annotated[
        str | None,
        Header(
            description="`Bearer <token>`, with a token of `mirage token create` or of Slurm "
            "(`scontrol token`); or `MUNGE <credential>`, whose payload is `<METHOD> <path?query> "
            "<SHA-256 of the body> <cluster> mirage`; or `SACK <credential>` of Slurm's own "
            "socket, with the same payload."
        ),
    ] = None,
) -> Principal:
    """Return what the caller may see and change; a caller without a credential is nobody.

    Raises NotIdentified for a credential that is not valid. In per-user mode every caller but the
    owner gets NotIdentified or NotAllowed.
    """
    caller = _authenticate_caller(request, context, body, authorization)
    if caller is not None:
        caller = request.state.caller = _mark_counts_alone(context, caller)
    if context.owner_uid is not None and (caller is None or caller.uid != context.owner_uid):
        if caller is None:
            raise NotIdentified(_CREDENTIAL_HINT)
        raise NotAllowed("this service serves only the user who runs it")
    return context.rights.resolve_principal(caller)


_CREDENTIAL_HINT = (
    "the request needs a credential: send the header `Authorization: MUNGE <credential>`, "
    "`Authorization: SACK <credential>` or `Authorization: Bearer <token>`"
)


def _authenticate_caller(
    request: Request, context: ApiContext, body: bytes, authorization: str | None
) -> Caller | None:
    if not authorization:
        peer = get_peer_caller(request.state)
        socket_caller = None if peer is not None and peer.uid in context.proxy_uids else peer
        return cookie_auth.authenticate_session(request, context) or socket_caller
    scheme, _, credential = authorization.partition(" ")
    credential = credential.strip()
    match scheme.upper():
        case "MUNGE":
            return _authenticate_munge(request, context, body, credential)
        case "SACK":
            return _authenticate_sack(request, context, body, credential)
        case "BEARER" if credential.startswith(tokens.PREFIX):
            with context.store.read() as tx:
                now = context.clock()
                return tokens.authenticate_token(
                    tx, credential, cluster_id=context.cluster_id, now=now
                )
        case "BEARER":
            if context.read_jwt is None:
                raise NotIdentified("this service accepts no Slurm tokens: use MUNGE")
            return context.read_jwt(credential)
    raise NotIdentified(_CREDENTIAL_HINT)


def _mark_counts_alone(context: ApiContext, caller: Caller) -> Caller:
    """Mark a caller that has its own quota.

    A uid without an account on this host gets its own once Slurm has shown a job of that uid.
    """
    if caller.counts_alone:
        return caller
    with context.store.read() as tx:
        return replace(
            caller, counts_alone=chain_counts.has_seen_chain(tx, context.cluster_id, caller.uid)
        )


_OLD_PLUGIN_REQUEST = re.compile(
    r"POST /api/v1/(chains|completions)|GET /api/v1/chains/[0-9a-z]+/next"
)
"""The requests of plugins and running links, which may be older than the service."""

_log = structlog.get_logger(__name__)


def _authenticate_munge(
    request: Request, context: ApiContext, body: bytes, credential: str
) -> Caller:
    if context.identify is None:
        raise NotIdentified("this service accepts no MUNGE credentials: use a token")
    method, target = request.method, _get_signed_target(request)
    older_texts: list[str] = []
    if context.munge_without_cluster and _OLD_PLUGIN_REQUEST.fullmatch(f"{method} {target}"):
        older_texts.append(build_unnamed_text(method, target, body))
    caller = context.identify(
        credential, build_signed_text(method, target, body, context.cluster_name), *older_texts
    )
    if not caller.names_cluster:
        _warn_of_older_plugin(caller.user)
    return caller


def _authenticate_sack(
    request: Request, context: ApiContext, body: bytes, credential: str
) -> Caller:
    if context.identify_sack is None:
        raise NotIdentified("this service accepts no SACK credentials: use a token")
    target = _get_signed_target(request)
    payload = build_signed_text(request.method, target, body, context.cluster_name)
    return context.identify_sack(credential, payload)


@lru_cache(maxsize=4096)
def _warn_of_older_plugin(user: str) -> None:
    """Log a warning once for each user, so that users cannot fill the log."""
    _log.warning(
        "a MUNGE credential names no cluster: update slurm_plugin on the host that sent it, then "
        "set auth.munge_without_cluster = false",
        user=user,
    )


def _get_signed_target(request: Request) -> str:
    """Return the request's target as its caller wrote it, without a proxy's prefix."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    query = request.scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else str(path)


Reader = Annotated[Principal, Depends(authorize_reader)]


# Opened after the caller is known, because the caller is looked up in another transaction. A
# request that held one transaction and asked for a second could wait for itself when all of the
# pool's connections are in use.
def _open_read_transaction(context: Context, reader: Reader) -> Iterator[Transaction]:  # noqa: ARG001
    with context.store.read() as tx:
        yield tx


# Scope "function": the transaction commits before the answer is sent, so a failed commit becomes
# an error answer.
Reading = Annotated[Transaction, Depends(_open_read_transaction, scope="function")]


def require_identified(reader: Reader) -> Principal:
    if not reader.is_known:
        raise NotIdentified(_CREDENTIAL_HINT)
    return reader


Identified = Annotated[Principal, Depends(require_identified)]
"""A caller who is known; others get NotIdentified."""


def authorize_writer(request: Request, context: Context, principal: Identified) -> Principal:
    """Return the caller if it may write.

    Raises TooMany over the quota, and NotAllowed for a token that may only read.
    """
    # Admins, and slurmctld, which reports the end of each job, have no quota.
    if not principal.is_admin and principal.user not in context.pushers:
        quota.get_quota(request).check_write(quota.get_quota_holder(request))
    if request.state.caller.read_only or principal.role is Role.VIEWER:
        raise NotAllowed("this token may only read: ask your admin for one with `--role user`")
    return principal


Writer = Annotated[Principal, Depends(authorize_writer)]
"""A caller who may change what is theirs."""


def _begin_write_transaction(
    request: Request,
    context: Context,
    writer: Writer,  # noqa: ARG001
) -> Iterator[Transaction]:
    with context.store.begin() as tx:
        audit.set_audit_credential(tx, request.state.caller.via)
        yield tx


Writing = Annotated[Transaction, Depends(_begin_write_transaction, scope="function")]
"""A transaction of a caller who may write. Its audit entries name the caller's credential."""


def _require_admin(principal: Identified) -> Principal:
    if not principal.is_admin:
        raise NotAllowed(f"{principal.user} is not an admin of this service")
    return principal


Admin = Annotated[Principal, Depends(_require_admin)]


def _require_admin_writer(writer: Writer) -> Principal:
    return _require_admin(writer)


AdminWriter = Annotated[Principal, Depends(_require_admin_writer)]


def require_identity(reader: Principal, *words: str) -> None:
    """Raise NotIdentified for an unknown caller if PrivateData hides one of `words`.

    The list would hold the caller's own rows alone, and an unknown caller has none.
    """
    if not reader.is_known and not reader.can_see(*words):
        raise NotIdentified(
            f"this cluster shows users only their own jobs (PrivateData): {_CREDENTIAL_HINT}"
        )


@dataclass(frozen=True, slots=True)
class Freshness:
    """The instant at which Mirage last read the queue, and whether that is too long ago."""

    as_of: datetime | None
    stale: bool


def read_freshness(tx: Transaction, context: ApiContext) -> Freshness:
    """Return how old the data is; without any snapshot `as_of` is None and the data is stale."""
    latest = queue_sums.find_latest_snapshot(tx, context.cluster_id)
    if latest is None:
        return Freshness(None, stale=True)
    stale = context.clock() - latest.taken_at > context.stale_after_s
    return Freshness(to_instant(latest.taken_at), stale)


def to_instant(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def to_optional_instant(epoch: int | None) -> datetime | None:
    return None if epoch is None else to_instant(epoch)
