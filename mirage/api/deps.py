"""What a route may ask for: the context, a transaction, the caller, how fresh the answer is."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, cast

from fastapi import Depends, Header, Request

from mirage.api.context import ApiContext
from mirage.domain.caller import Caller
from mirage.errors import NotAllowed, NotIdentified
from mirage.store import snapshots
from mirage.store.engine import Transaction


def context(request: Request) -> ApiContext:
    return cast(ApiContext, request.app.state.context)


Context = Annotated[ApiContext, Depends(context)]


def _begin(given: Context) -> Iterator[Transaction]:
    with given.store.begin() as tx:
        yield tx


def _read(given: Context) -> Iterator[Transaction]:
    with given.store.read() as tx:
        yield tx


# Of scope "function": committed before the answer is sent, so that a commit that fails is told.
Writing = Annotated[Transaction, Depends(_begin, scope="function")]
Reading = Annotated[Transaction, Depends(_read, scope="function")]


async def _body(request: Request) -> bytes:
    # The one coroutine: Starlette gives the body to no other.
    return await request.body()


Body = Annotated[bytes, Depends(_body)]


def signed(method: str, path: str, body: bytes) -> str:
    """What a credential for this request must hold."""
    return f"{method} {path} {hashlib.sha256(body).hexdigest()}"


def caller(
    request: Request,
    given: Context,
    body: Body,
    authorization: Annotated[
        str | None,
        Header(description="`MUNGE <credential>` of `<METHOD> <path> <SHA-256 of the body>`"),
    ] = None,
) -> Caller:
    scheme, _, credential = (authorization or "").partition(" ")
    if scheme.upper() != "MUNGE":
        raise NotIdentified("this needs the header `Authorization: MUNGE <credential>`")
    if given.identify is None:
        raise NotIdentified("this service can identify nobody, so it takes no writes")
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return given.identify(credential.strip(), signed(request.method, path, body))


Identified = Annotated[Caller, Depends(caller)]


def is_admin(given: ApiContext, who: Caller) -> bool:
    return who.user in given.admins


def admin(given: Context, who: Identified) -> Caller:
    if not is_admin(given, who):
        raise NotAllowed(f"{who.user} is not an admin of this service")
    return who


Admin = Annotated[Caller, Depends(admin)]


@dataclass(frozen=True, slots=True)
class Freshness:
    """When the cluster was last looked at, and whether that is too long ago."""

    as_of: datetime | None
    stale: bool


def freshness(tx: Transaction, given: ApiContext) -> Freshness:
    latest = snapshots.latest(tx, given.cluster_id)
    if latest is None:
        return Freshness(None, stale=True)
    stale = given.clock() - latest.taken_at > given.stale_after_s
    return Freshness(instant(latest.taken_at), stale)


def instant(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


def instant_or_none(epoch: int | None) -> datetime | None:
    return None if epoch is None else instant(epoch)
