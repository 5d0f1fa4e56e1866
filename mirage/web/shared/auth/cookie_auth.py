"""Identifies browsers by a session cookie. For a write, one of our own pages must have sent it."""

from typing import Any
from urllib.parse import SplitResult, urlsplit

from fastapi import Request

from mirage.domain.callers.caller import Caller
from mirage.errors import NotAllowed
from mirage.web.identity import sessions
from mirage.web.shared.context import ApiContext

COOKIE = "mirage_session"
HTTPS_COOKIE = f"__Host-{COOKIE}"
"""The cookie's name over https. Browsers accept it over https alone, from this host alone, for all
paths. So no other host of the domain, and nobody on the network, can set it."""

_READ_METHODS = frozenset({"GET", "HEAD"})


def authenticate_session(request: Request, context: ApiContext) -> Caller | None:
    """Return the caller whose session the request's cookie names.

    Returns None for a request without a cookie, and for a session that is over. Raises
    NotAllowed for a write that another site's page has sent.
    """
    cookie = find_session_cookie(request, context)
    if cookie is None:
        return None
    _, secret = cookie
    with context.store.read() as tx:
        caller = sessions.find_session_caller(
            tx, secret, cluster_id=context.cluster_id, now=context.clock()
        )
    if caller is not None and request.method not in _READ_METHODS:
        request.state.caller = caller
        require_same_origin(request)
    return caller


def find_session_cookie(request: Request, context: ApiContext) -> tuple[str, str] | None:
    """Return the session cookie's name and secret; None without one.

    At a host that browsers reach by https, only the cookie of https counts.
    """
    names = (HTTPS_COOKIE,) if _is_https_host(request, context) else (HTTPS_COOKIE, COOKIE)
    cookies = ((name, request.cookies.get(name)) for name in names)
    return next(((name, secret) for name, secret in cookies if secret), None)


def require_https(request: Request, context: ApiContext) -> None:
    """Raise NotAllowed for a login over http at a host that browsers reach by https.

    A browser would not keep the cookie.
    """
    if _is_https_host(request, context) and _parse_origin(request).scheme == "http":
        raise NotAllowed("this host takes logins over https only: log in at its https address")


def require_same_origin(request: Request) -> None:
    """Raise NotAllowed unless one of our own pages sent the request.

    The check reads headers that no page can set.
    """
    fetch_site = request.headers.get("sec-fetch-site")
    if fetch_site is None:
        # Browsers leave it out if the page did not come over https.
        origin = _parse_origin(request)
        is_same_origin = bool(origin.netloc) and origin.netloc == request.headers.get("host")
    else:
        is_same_origin = fetch_site == "same-origin"
    if not is_same_origin:
        raise NotAllowed("no page of this service sent this request: use the service's own pages")


def build_cookie(request: Request, context: ApiContext) -> dict[str, Any]:
    """Return the attributes with which the session cookie of this request is set."""
    # A proxy's word on https counts for nothing; the browser's own header Origin does.
    by_https = _is_https_host(request, context) or _parse_origin(request).scheme == "https"
    return build_cookie_attributes(HTTPS_COOKIE if by_https else COOKIE, context)


def build_cookie_attributes(name: str, context: ApiContext) -> dict[str, Any]:
    """Return the attributes with which the cookie of that name is set and deleted."""
    by_https = name == HTTPS_COOKIE
    return {
        "key": name,
        "path": "/" if by_https else context.root_path or "/",
        "httponly": True,
        "samesite": "strict",
        "secure": by_https,
    }


def _is_https_host(request: Request, context: ApiContext) -> bool:
    return context.hosts.is_https_host(request.headers.get("host", ""))


def _parse_origin(request: Request) -> SplitResult:
    try:
        return urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return urlsplit("")
