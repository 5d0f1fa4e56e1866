"""The HTTP application: `create_app` puts routes, errors and the OpenAPI document together."""

import secrets
from urllib.parse import urlsplit, urlunsplit

from fastapi import Depends, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirage.web.api import openapi
from mirage.web.api.routes import (
    admin,
    chains,
    cluster,
    events,
    forecasts,
    handovers,
    job_callbacks,
    learning,
    overviews,
    queue,
    reports,
    system,
)
from mirage.web.api.streaming.change_feed import ChangeFeed
from mirage.web.shared import problems
from mirage.web.shared.context import ApiContext
from mirage.web.shared.denied_requests import DenialLedger
from mirage.web.shared.dependencies import reject_nul, require_json
from mirage.web.shared.if_match import reject_unheeded_if_match
from mirage.web.shared.middleware.etag import ETagMiddleware
from mirage.web.shared.middleware.head_requests import HeadMiddleware
from mirage.web.shared.middleware.host_check import HostCheckMiddleware
from mirage.web.shared.quota import Quota
from mirage.web.shared.unknown_parameters import reject_unknown_parameters

PREFIX = "/api/v1"
MAX_BODY = 64 * 1024
_OF_EACH_ROUTE = [
    *(Depends(require_json), Depends(reject_nul)),
    *(Depends(reject_unknown_parameters), Depends(reject_unheeded_if_match)),
]
_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""The policy of an answer that sets none. A page sets its own."""


def create_app(context: ApiContext) -> FastAPI:
    app = FastAPI(
        title="Mirage",
        summary="Chains of jobs on Slurm that hand over without a gap.",
        version="1.0.0",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.context = context
    app.state.refusals = DenialLedger(context.stopwatch)
    app.state.live = ChangeFeed(context)
    app.state.quota = Quota(context.quotas, context.stopwatch)
    for routes in (
        chains,
        handovers,
        job_callbacks,
        cluster,
        queue,
        forecasts,
        events,
        overviews,
        reports,
        system,
        admin,
        learning,
    ):
        app.include_router(routes.router, prefix=PREFIX, dependencies=_OF_EACH_ROUTE)
    app.include_router(system.probes)
    problems.install_handlers(app)
    openapi.install_document(app, PREFIX)
    app.add_middleware(ETagMiddleware, prefix=context.root_path + PREFIX)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(HostCheckMiddleware, hosts=context.hosts, proxies=context.proxy_uids)
    app.add_middleware(_RequestGuard, root_path=context.root_path)
    return app


def _put_root_path(scope: Scope, root_path: str) -> None:
    """Put the root path in front of the path, as ASGI has it. Some proxies remove it, some do
    not."""
    scope["root_path"] = root_path
    if root_path and not f"{scope['path']}/".startswith(f"{root_path}/"):
        scope["path"] = root_path + scope["path"]


def _strip_origin(location: str) -> str:
    """Return a location without its scheme and host.

    Starlette's own redirects contain the scheme and host that a proxy used for its request.
    A location whose path starts with `//` is returned as it is.
    """
    parts = urlsplit(location)
    if not parts.netloc or parts.path.startswith("//"):
        return location
    return urlunsplit(("", "", parts.path, parts.query, ""))


class _RequestGuard:
    """Gives each request an id, and refuses bodies of more than MAX_BODY bytes."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app, self._root_path = app, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        _put_root_path(scope, self._root_path)

        remaining = MAX_BODY

        async def receive_counted() -> Message:
            nonlocal remaining
            message = await receive()
            remaining -= len(message.get("body", b""))
            if remaining < 0:
                raise HTTPException(413, f"a body has at most {MAX_BODY} bytes")
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Request-Id", request_id)
                # A job's name may be markup: nothing here is to be taken for a page.
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Content-Security-Policy", _POLICY)
                if "location" in headers:
                    headers["location"] = _strip_origin(headers["location"])
            await send(message)

        await self._app(scope, receive_counted, send_with_headers)


__all__ = ["ApiContext", "create_app"]
