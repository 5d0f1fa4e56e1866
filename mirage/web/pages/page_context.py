"""Provides what every page has.

That is the reader, the cluster, the age of the data, and the answer's headers.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from mirage.database.events import changes
from mirage.database.operations.modes_in_force import ModesInForce, read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import PARTITIONS, Principal
from mirage.web import assets, formatting
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import Context, Reader, Reading, read_freshness

POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "object-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Our own forms must name the page that sends them (`shared.auth.cookie_auth`). Other sites
    # do not learn it.
    "Referrer-Policy": "same-origin",
    # A copy that the browser keeps would show an old age. 304 is for `live.js`.
    "Cache-Control": "no-store",
    "Vary": "Cookie",
}

_OK = 200
_IN_QUERY = "=&%+,:/?"
"""Characters that stay as they are in a query; the rest is percent-encoded, as /login needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationEntry:
    """A page in the navigation."""

    name: str
    path: str
    order: int
    admins: bool = False
    """Whether the entry is shown to admins alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """One reader's request for a page: what the page is made from, and how it is rendered."""

    request: Request
    context: ApiContext
    tx: Transaction
    reader: Principal

    @property
    def cluster_id(self) -> int:
        return self.context.cluster_id

    @property
    def now(self) -> int:
        """Return the cluster's time in epoch seconds."""
        return self.context.clock()

    def render_page(
        self, template: str, *, title: str, status: int = _OK, **values: Any
    ) -> Response:
        """Render a template of templates/ in the layout, with the age of the data.

        Spans such as "in 2 h" count from now (`formatting.render_span`). Drawings show the state at
        `at`, the time when the queue was read, so the page changes only when its data does.
        """
        return _build_response(self.request, self._render_html(template, title, values), status)

    def render_cached(
        self,
        template: str,
        *,
        title: str,
        make: Callable[[], dict[str, Any]],
        until: int | None = None,
    ) -> Response:
        """Render a page from the cache; call `make` for the values only if stored data changed.

        Use it for pages that depend on the address, the reader and the tables that `changes`
        watches alone. A page that looks back from an instant passes that instant as `until`.
        """
        taken_at, stale = self._freshness
        if taken_at is None:
            return self.render_page(template, title=title, **make())
        newest = changes.read_newest_seq(self.tx, self.cluster_id)
        version = (newest, taken_at, stale, until, self.context.shortcoming)
        key = (self.reader, self.request.url.path, self.request.url.query)
        html = self.context.response_cache.get_or_make(
            key, version, lambda: self._render_html(template, title, make())
        )
        return _build_response(self.request, formatting.update_spans(html, self.now), _OK)

    @property
    def modes(self) -> ModesInForce:
        """Return the modes in force, with the names of partitions that the reader may know."""
        modes = read_modes(self.tx, self.cluster_id)
        return modes if self.reader.can_see(PARTITIONS) else modes.hide_names()

    @property
    def queue_at(self) -> int:
        """Return when the queue was read; now, if it was never read."""
        taken_at, _ = self._freshness
        return self.now if taken_at is None else taken_at

    @property
    def _freshness(self) -> tuple[int | None, bool]:
        """Return when the queue was read (None: never), and whether that is too long ago."""
        freshness = read_freshness(self.tx, self.context)
        return None if freshness.as_of is None else int(
            freshness.as_of.timestamp()
        ), freshness.stale

    def _render_html(self, template: str, title: str, values: dict[str, Any]) -> str:
        taken_at, stale = self._freshness
        now = self.now
        state = {
            "now": now,
            "taken_at": taken_at,
            "at": self.queue_at,
            "stale": stale,
            "instant_name": "queue read" if stale else "now",
            "modes": self.modes,
            "live": True,
        }
        return _render_layout(
            self.request, template, title, {"reader": self.reader, **state, **values}
        )


def _build_page_context(
    request: Request, context: Context, tx: Reading, reader: Reader
) -> PageContext:
    return PageContext(request=request, context=context, tx=tx, reader=reader)


CurrentPage = Annotated[PageContext, Depends(_build_page_context)]
"""The parameter by which a page's route gets its PageContext."""


def render_bare_page(
    request: Request, template: str, *, title: str, status: int = _OK, **values: Any
) -> Response:
    """Render a page that shows nothing of the cluster and needs no caller."""
    return _build_response(request, _render_layout(request, template, title, values), status)


def build_return_path(request: Request) -> str:
    """Return the requested path and query, in a form that /login can lead back to."""
    query = quote(request.url.query, safe=_IN_QUERY)
    return f"{_get_path(request)}?{query}" if query else _get_path(request)


def _get_path(request: Request) -> str:
    context: ApiContext = request.app.state.context
    return request.url.path.removeprefix(context.root_path) or "/"


def _render_layout(request: Request, template: str, title: str, values: dict[str, Any]) -> str:
    context: ApiContext = request.app.state.context
    entries: Sequence[NavigationEntry] = request.app.state.entries
    return render_template(
        template,
        context.root_path,
        title=title,
        entries=entries,
        path=_get_path(request),
        place=build_return_path(request),
        cluster=context.cluster_name,
        poll_s=context.queue_interval_s,
        stale_after_s=context.stale_after_s,
        shortcoming=context.shortcoming,
        **{
            "reader": Principal(),
            "live": False,
            "modes": None,
            "stale": False,
            "taken_at": None,
            **values,
        },
    )


def _build_response(request: Request, html: str, status: int) -> Response:
    """Return the page; or 304 if the caller has the same page, apart from its spans."""
    digest = hashlib.sha256(formatting.remove_spans(html).encode()).hexdigest()[:24]
    headers = HEADERS | {"ETag": f'W/"{digest}"'}
    if status == _OK and headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    tagged_html = html.replace('data-etag=""', f'data-etag="{digest}"', 1)
    return HTMLResponse(tagged_html, status, headers)


@cache
def _build_environment() -> Environment:
    """Build Jinja2's environment with the filters of the templates; all but Markup is escaped."""
    environment = Environment(
        loader=PackageLoader("mirage.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "when": formatting.render_instant,
        "clock": formatting.format_clock,
        "span": formatting.render_span,
        "duration": formatting.format_duration,
        "hours": formatting.format_hours,
        "count": formatting.format_count,
        "coded": formatting.render_code,
    }
    return environment


def render_template(template: str, root_path: str, **values: Any) -> str:
    """Render a template. In it `url(path)` and `asset(name)` return addresses below `root_path`."""
    return (
        _build_environment()
        .get_template(template)
        .render(
            url=lambda path: root_path + path,
            asset=lambda name: root_path + assets.get_asset_path(name),
            **values,
        )
    )
