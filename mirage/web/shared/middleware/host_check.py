"""Refuses requests that name another host (`allowed_hosts`), before any other check."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from mirage.domain.sanitize import escape_unprintable
from mirage.web.shared.allowed_hosts import Hosts
from mirage.web.shared.problems import MISDIRECTED, build_response

_MAX_NAME_CHARS = 253
"""The most characters of a name in the answer."""


class HostCheckMiddleware:
    """Answers 421 to requests whose header Host names another host.

    `proxies` are the uids whose connections to the unix socket carry the requests of browsers.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, proxies: frozenset[int] = frozenset()) -> None:
        self._app, self._hosts, self._proxies = app, hosts, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = request.headers.get("host")
        # Browsers always name a host, and reach a unix socket only through a proxy.
        uid = scope.get("state", {}).get("peer_uid")
        is_local = uid is not None and uid not in self._proxies
        if is_local or host is None or self._hosts.is_own_host(host):
            await self._app(scope, receive, send)
            return
        printable_host = escape_unprintable(host)[:_MAX_NAME_CHARS]
        detail = (
            f"this service does not answer to the name {printable_host!r}: "
            "an admin can add the name to service.origins"
        )
        await build_response(request, MISDIRECTED, detail)(scope, receive, send)
