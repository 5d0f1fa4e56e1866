"""Adds the pages to the app. A browser gets a page for an error, a program the problem's JSON."""

import json
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from mirage.web import assets
from mirage.web.pages import (
    accuracy,
    admin,
    admin_audit,
    admin_learning,
    admin_models,
    chains,
    impact,
    login,
    overview,
    queue,
)
from mirage.web.pages.page_context import (
    HEADERS,
    NavigationEntry,
    build_return_path,
    render_bare_page,
)
from mirage.web.shared.context import ApiContext
from mirage.web.shared.unknown_parameters import reject_unknown_parameters

_PAGES: tuple[tuple[APIRouter, NavigationEntry | None], ...] = (
    (assets.router, None),
    (login.router, None),
    (overview.router, overview.ENTRY),
    (chains.router, None),
    (queue.router, queue.ENTRY),
    (accuracy.router, accuracy.ENTRY),
    (impact.router, impact.ENTRY),
    (admin.router, admin.ENTRY),
    (admin_models.router, None),
    (admin_learning.router, None),
    (admin_audit.router, None),
)
"""The routers and their entries in the navigation; None: the page has no entry."""

_API = "/api/"
_UNIDENTIFIED = 401
_KEPT_HEADERS = ("X-Request-Id", "Retry-After")
"""The headers of a problem that its page keeps."""

_Handler = Callable[[Request, Any], Response | Awaitable[Response]]


def mount_pages(app: FastAPI) -> None:
    """Add the pages to an app of `create_app`."""
    for router, _ in _PAGES:
        app.include_router(router, dependencies=[Depends(reject_unknown_parameters)])
    entries = [entry for _, entry in _PAGES if entry is not None]
    app.state.entries = tuple(sorted(entries, key=lambda entry: entry.order))
    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = _wrap_handler(handler)


def _wrap_handler(handler: _Handler) -> Callable[[Request, Any], Awaitable[Response]]:
    """Return a handler that shows a person, as a page, what `handler` answers to a program."""

    async def handle_error(request: Request, error: Any) -> Response:
        outcome = handler(request, error)
        response = await outcome if isawaitable(outcome) else outcome
        return _render_problem(request, response) if _is_person(request) else response

    return handle_error


def _is_person(request: Request) -> bool:
    context: ApiContext = request.app.state.context
    path = request.url.path.removeprefix(context.root_path)
    return not path.startswith(_API) and "text/html" in request.headers.get("accept", "")


def _render_problem(request: Request, response: Response) -> Response:
    problem: dict[str, Any] = json.loads(bytes(response.body))
    if response.status_code == _UNIDENTIFIED and request.method == "GET":
        return _send_to_login(request)
    page = render_bare_page(
        request,
        "error.html",
        title=problem["title"],
        status=response.status_code,
        problem=problem,
    )
    page.headers.update(
        {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    )
    return page


def _send_to_login(request: Request) -> Response:
    context: ApiContext = request.app.state.context
    target = f"{context.root_path}/login?next={quote(build_return_path(request), safe='')}"
    return RedirectResponse(target, 303, headers=HEADERS)
