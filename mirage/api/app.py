"""The service's HTTP face: `create_app` puts routes, errors and the document together."""

import secrets

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirage.api import chains, cluster, documented, machines, problems, queue, system
from mirage.api.context import ApiContext
from mirage.api.refusals import Flood

PREFIX = "/api/v1"
MAX_BODY = 64 * 1024
_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""Of an answer that says nothing else; a page brings its own."""


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
    app.state.refusals = Flood()
    routes = (chains, machines, cluster, queue, system)
    for router in (room.router for room in routes):
        app.include_router(router, prefix=PREFIX)
    app.include_router(system.probes)
    problems.install(app)
    documented.install(app)
    app.add_middleware(_Edge)
    return app


class _Edge:
    """Gives each request an id, and no request more than MAX_BODY bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        left = MAX_BODY

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"a body has at most {MAX_BODY} bytes")
            return message

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Request-Id", request_id)
                # A job's name may be markup: nothing here is to be taken for a page.
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Content-Security-Policy", _POLICY)
            await send(message)

        await self._app(scope, counted, named)


__all__ = ["ApiContext", "create_app"]
