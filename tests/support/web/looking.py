"""A person at a browser: opens pages, and keeps what the browser complained of."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Response, ViewportSize

from mirage.web.shared.auth.cookie_auth import COOKIE
from tests.support import patient

Scheme = Literal["light", "dark"]

WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

_SERIOUS = {"serious", "critical"}


@dataclass
class Visitor:
    """A window at one service."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    """Of the console, of scripts, of the policy; and requests to any other host."""

    def open(self, path: str) -> Response:
        answer = self.page.goto(self.url + path, wait_until="load")
        assert answer is not None
        return answer

    def listen(self) -> None:
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._said)

    def _asked(self, address: str) -> None:
        if urlsplit(address).netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"asked {address}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def judged(self, axe: str) -> list[str]:
        """What axe-core finds serious on the page that is open."""
        self.page.evaluate(axe)
        found: dict[str, Any] = self.page.evaluate("axe.run()")
        return [
            f"{said['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
            for said in found["violations"]
            if said["impact"] in _SERIOUS
            for node in said["nodes"]
        ]

    def is_cut(self) -> bool:
        """Whether the page is wider than the window: a person would have to scroll sideways."""
        wider: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wider


@contextmanager
def visiting(
    browser: Browser,
    url: str,
    *,
    cookie: str | None = None,
    scheme: Scheme = "light",
    size: ViewportSize = WIDE,
    scripts: bool = True,
) -> Iterator[Visitor]:
    """`cookie`: of a session (`session_of`)."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport=size,
        java_script_enabled=scripts,
        service_workers="block",
        ignore_https_errors=True,  # `over_https`
    )
    try:
        if cookie is not None:
            context.add_cookies([{"name": COOKIE, "value": cookie, "url": url}])
        page = context.new_page()
        page.set_default_timeout(1000 * patient.PATIENCE_S)
        visitor = Visitor(url, page)
        visitor.listen()
        yield visitor
    finally:
        context.close()
