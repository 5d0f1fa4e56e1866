"""Refuses requests that name another host (`http.allowed_hosts`), before all else."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from mirage.domain.sanitize import escape_unprintable
from mirage.http.allowed_hosts import Hosts
from mirage.http.problems import MISDIRECTED, build_response

_LONGEST = 253
"""Characters of a name."""


class HostCheckMiddleware:
    """Answers 421 to requests that ask another name for something.

    `proxies`: the uids whose connections to the unix socket carry what browsers asked them for.
    """

    def __init__(self, app: ASGIApp, known: Hosts, proxies: frozenset[int] = frozenset()) -> None:
        self._app, self._known, self._proxies = app, known, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = request.headers.get("host")
        # Browsers always name one, and speak to a unix socket only through a proxy.
        uid = scope.get("state", {}).get("peer_uid")
        is_local = uid is not None and uid not in self._proxies
        if is_local or host is None or self._known.is_own_host(host):
            await self._app(scope, receive, send)
            return
        shown = escape_unprintable(host)[:_LONGEST]
        detail = f"this service is not called {shown!r}: its admins name it in service.origins"
        await build_response(request, MISDIRECTED, detail)(scope, receive, send)
