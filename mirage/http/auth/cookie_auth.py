"""Callers that are browsers: a cookie of a session, believed in a write only from our own pages."""

from typing import Any
from urllib.parse import SplitResult, urlsplit

from fastapi import Request

from mirage.domain.access.caller import Caller
from mirage.errors import NotAllowed
from mirage.http.context import ApiContext
from mirage.services.access import sessions

COOKIE = "mirage_session"
HTTPS_COOKIE = f"__Host-{COOKIE}"
"""Over https. Browsers take it over https alone, of this very host alone, for all of its paths: no
neighbour below the same domain, and nobody on the way, can put a session of their own into it."""

_LOOKS = frozenset({"GET", "HEAD"})


def authenticate_session(request: Request, given: ApiContext) -> Caller | None:
    """Return the caller whose session the request's cookie names.

    Returns None for a request without a cookie, and for a session that is over. Raises
    NotAllowed for a write that another site's page has sent.
    """
    held = find_session_cookie(request, given)
    if held is None:
        return None
    _, secret = held
    with given.store.read() as tx:
        who = sessions.find_session_caller(
            tx, secret, cluster_id=given.cluster_id, now=given.clock()
        )
    if who is not None and request.method not in _LOOKS:
        request.state.who = who
        require_same_origin(request)
    return who


def find_session_cookie(request: Request, given: ApiContext) -> tuple[str, str] | None:
    """The session's cookie and the secret in it. Where browsers come by https, no other cookie than
    that of https is believed."""
    known = (HTTPS_COOKIE,) if _is_https_host(request, given) else (HTTPS_COOKIE, COOKIE)
    held = ((name, request.cookies.get(name)) for name in known)
    return next(((name, secret) for name, secret in held if secret), None)


def require_https(request: Request, given: ApiContext) -> None:
    """Raise NotAllowed for a login over http where browsers are to come by https: a browser would
    not keep the cookie."""
    if _is_https_host(request, given) and _parse_origin(request).scheme == "http":
        raise NotAllowed("sessions here are for https alone: log in at the address with https")


def require_same_origin(request: Request) -> None:
    """Raise NotAllowed unless one of our own pages sends this. No page can write these headers."""
    said = request.headers.get("sec-fetch-site")
    if said is None:
        # Left out by browsers where the page did not come over https.
        origin = _parse_origin(request)
        same = bool(origin.netloc) and origin.netloc == request.headers.get("host")
    else:
        same = said == "same-origin"
    if not same:
        raise NotAllowed("this was not sent by a page of this service: use its own pages")


def build_cookie(request: Request, given: ApiContext) -> dict[str, Any]:
    """Return the attributes with which the session cookie of this request is set."""
    # What a proxy says of the way is for nobody to believe; a browser says it of itself.
    by_https = _is_https_host(request, given) or _parse_origin(request).scheme == "https"
    return build_cookie_attributes(HTTPS_COOKIE if by_https else COOKIE, given)


def build_cookie_attributes(name: str, given: ApiContext) -> dict[str, Any]:
    """Return the attributes with which the cookie of that name is set and deleted."""
    by_https = name == HTTPS_COOKIE
    return {
        "key": name,
        "path": "/" if by_https else given.root_path or "/",
        "httponly": True,
        "samesite": "strict",
        "secure": by_https,
    }


def _is_https_host(request: Request, given: ApiContext) -> bool:
    return given.hosts.is_https_host(request.headers.get("host", ""))


def _parse_origin(request: Request) -> SplitResult:
    try:
        return urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return urlsplit("")
