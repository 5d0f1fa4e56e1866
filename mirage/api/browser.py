"""Callers that are browsers: a cookie of a session, believed in a write only from our own pages."""

from typing import Any
from urllib.parse import urlsplit

from fastapi import Request

from mirage.api.context import ApiContext
from mirage.domain.caller import Caller
from mirage.errors import NotAllowed
from mirage.services import sessions

COOKIE = "mirage_session"

_LOOKS = frozenset({"GET", "HEAD"})


def session(request: Request, given: ApiContext) -> Caller | None:
    """Whose session the request's cookie is; None without one, and for one that is over.

    Raises NotAllowed for a write that another site's page has sent.
    """
    secret = request.cookies.get(COOKIE)
    if not secret:
        return None
    with given.store.read() as tx:
        who = sessions.identify(tx, secret, cluster_id=given.cluster_id, now=given.clock())
    if who is not None and request.method not in _LOOKS:
        request.state.who = who
        need_same_origin(request)
    return who


def need_same_origin(request: Request) -> None:
    """Raise NotAllowed unless one of our own pages sends this. No page can write these headers."""
    said = request.headers.get("sec-fetch-site")
    if said is None:
        # Left out by browsers where the page did not come over https.
        origin = urlsplit(request.headers.get("origin", ""))
        same = bool(origin.netloc) and origin.netloc == request.headers.get("host")
    else:
        same = said == "same-origin"
    if not same:
        raise NotAllowed("this was not sent by a page of this service: use its own pages")


def cookie(request: Request, given: ApiContext) -> dict[str, Any]:
    """How the cookie is set and taken back."""
    origin = request.headers.get("origin", "")
    return {
        "key": COOKIE,
        "path": given.root_path or "/",
        "httponly": True,
        "samesite": "strict",
        # What a proxy says of the way is for nobody to believe; a browser says it of itself.
        "secure": origin.startswith("https://"),
    }
