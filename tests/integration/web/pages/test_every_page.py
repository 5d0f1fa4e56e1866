"""What holds of every page, whatever it shows: at every size of the database, by light and dark."""

import pytest
from playwright.sync_api import Browser

from tests.integration.web.pages.shown import PAGES, Shown
from tests.support.web.looking import PHONE, Scheme, visiting
from tests.support.web.seeded import SIZES
from tests.support.web.serving import Site

OF_EACH_SIZE = [
    pytest.param(page, size, id=f"{page.name}-{size}")
    for page in PAGES
    for size in SIZES
    if not (page.needs_chain and SIZES[size].chains == 0)
]
EACH = [pytest.param(page, id=page.name) for page in PAGES]


def cookie(site: Site, page: Shown) -> str | None:
    return site.sessions[page.who] if page.who else None


@pytest.mark.parametrize(("page", "size"), OF_EACH_SIZE)
def test_it_renders_without_a_complaint_and_asks_nobody_else(
    page: Shown, size: str, browser: Browser, sites: dict[str, Site]
) -> None:
    site = sites[size]
    with visiting(browser, site.url, cookie=cookie(site, page)) as visitor:
        answer = visitor.open(page.path)
        assert answer.status == 200
        assert visitor.page.locator("h1").count() == 1
        assert visitor.page.title().endswith("Mirage on lab")
        assert "None" not in visitor.page.locator("main").inner_text()
        assert visitor.complaints == []


@pytest.mark.parametrize("page", EACH)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_on_it_is_seriously_inaccessible(
    page: Shown, scheme: Scheme, browser: Browser, sites: dict[str, Site], axe: str
) -> None:
    site = sites["full"]
    with visiting(browser, site.url, cookie=cookie(site, page), scheme=scheme) as visitor:
        visitor.open(page.path)
        assert visitor.list_violations(axe) == []


@pytest.mark.parametrize("page", EACH)
def test_it_fits_a_phone_and_works_without_scripts(
    page: Shown, browser: Browser, sites: dict[str, Site]
) -> None:
    site = sites["full"]
    with visiting(browser, site.url, cookie=cookie(site, page), size=PHONE) as visitor:
        visitor.open(page.path)
        assert not visitor.is_cut()
    with visiting(browser, site.url, cookie=cookie(site, page), scripts=False) as visitor:
        assert visitor.open(page.path).status == 200
        assert visitor.page.locator("main").inner_text()


@pytest.mark.parametrize("page", EACH)
def test_its_headers_leave_no_way_for_scripts_of_others(
    page: Shown, sites: dict[str, Site]
) -> None:
    site = sites["one"]
    held = {"Cookie": f"mirage_session={cookie(site, page)}"} if page.who else {}
    answer = site.client.raw("GET", page.path, headers={"Accept": "text/html", **held})
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    for inline in (" style=", " onclick=", "<style", "javascript:"):
        assert inline not in answer.text


@pytest.mark.parametrize("page", EACH)
def test_it_takes_no_parameter_that_it_would_ignore(page: Shown, sites: dict[str, Site]) -> None:
    site = sites["one"]
    held = {"Cookie": f"mirage_session={cookie(site, page)}"} if page.who else {}
    path = f"{page.path}{'&' if '?' in page.path else '?'}no_such_word=1"
    answer = site.client.raw("GET", path, headers={"Accept": "text/html", **held})
    assert answer.status_code == 422
    assert "no_such_word: there is no such parameter" in answer.text
