"""Refuses requests that name another host (`http.allowed_hosts`), before any other check."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from mirage.domain.sanitize import escape_unprintable
from mirage.web.shared.allowed_hosts import Hosts
from mirage.web.shared.problems import MISDIRECTED, build_response

_LONGEST = 253
"""The most characters of a name in the answer."""


class HostCheckMiddleware:
    """Answers 421 to requests whose header Host names another host.

    `proxies` are the uids whose connections to the unix socket carry the requests of browsers.
    """

    def __init__(self, app: ASGIApp, known: Hosts, proxies: frozenset[int] = frozenset()) -> None:
        self._app, self._known, self._proxies = app, known, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = request.headers.get("host")
        # Browsers always name a host, and reach a unix socket only through a proxy.
        uid = scope.get("state", {}).get("peer_uid")
        is_local = uid is not None and uid not in self._proxies
        if is_local or host is None or self._known.is_own_host(host):
            await self._app(scope, receive, send)
            return
        shown = escape_unprintable(host)[:_LONGEST]
        detail = (
            f"this service does not answer to the name {shown!r}: "
            "an admin can add the name to service.origins"
        )
        await build_response(request, MISDIRECTED, detail)(scope, receive, send)
