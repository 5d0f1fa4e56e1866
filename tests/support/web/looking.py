"""Opens pages in a browser, and keeps the browser's complaints."""

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
    """A browser window that shows the pages of one service."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of console, scripts and content policy; requests to other hosts."""

    def open(self, path: str) -> Response:
        answer = self.page.goto(self.url + path, wait_until="load")
        assert answer is not None
        return answer

    def listen(self) -> None:
        self.page.on("request", lambda request: self._record_foreign_request(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._record_console)

    def _record_foreign_request(self, address: str) -> None:
        if urlsplit(address).netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"asked {address}")

    def _record_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def list_violations(self, axe: str) -> list[str]:
        """Return the serious violations that axe-core finds on the open page; `axe`: its script."""
        self.page.evaluate(axe)
        result: dict[str, Any] = self.page.evaluate("axe.run()")
        return [
            f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
            for violation in result["violations"]
            if violation["impact"] in _SERIOUS
            for node in violation["nodes"]
        ]

    def is_cut(self) -> bool:
        """Return whether the page is wider than the window, so that users scroll sideways."""
        is_wider: bool = self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return is_wider


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
    """Open a window; `cookie`: the secret of a session (`session_of`)."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport=size,
        java_script_enabled=scripts,
        service_workers="block",
        ignore_https_errors=True,  # tests make their own certificates
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
