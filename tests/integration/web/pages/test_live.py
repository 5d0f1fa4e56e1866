"""A page that is open follows what changes, takes nothing from under one's hands, and says when it
is old."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mirage.chains import lifecycle as chain_service
from mirage.database.chains import chains
from mirage.domain.chain import ChainState
from tests.support.api.running import NOW
from tests.support.web.looking import Visitor, visiting
from tests.support.web.seeded import ONE
from tests.support.web.seeded_chain import chain_id
from tests.support.web.serving import Site, serving

ID = chain_id(0)
SOON_MS = 8000


@pytest.fixture
def closing_site(sqlite_template: Path, tmp_path: Path) -> Iterator[tuple[Site, ExitStack]]:
    """One that the test may end."""
    with ExitStack() as stack:
        yield stack.enter_context(serving(sqlite_template, tmp_path, ONE)), stack


def pause(site: Site) -> None:
    with site.store.begin() as tx:
        chain = chains.get_chain(tx, 1, ID)
        chain_service.request_state(
            tx, site.cluster_id, chain, ChainState.PAUSED, now=NOW, actor="alice"
        )


def test_what_changes_is_shown_and_the_rest_stays_as_it_was(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open(f"/chains/{ID}")
        expect(page.locator("html")).to_have_attribute("data-events", "open")
        opened = page.locator("#links-table")
        opened.locator("summary").first.press("Enter")
        scrolled = page.evaluate("window.scrollTo(0, 200), window.scrollY")
        pause(site)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)
        expect(page.locator("#updated")).to_contain_text("Updated at")
        expect(page.locator("#live")).to_be_empty()
        assert opened.get_attribute("open") is not None
        assert page.evaluate("window.scrollY") == scrolled
        assert visitor.complaints == []


def test_focus_stays_where_it_was(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open("/")
        expect(page.locator("html")).to_have_attribute("data-events", "open")
        link = page.get_by_role("link", name=ID).first
        link.focus()
        pause(site)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)
        expect(link).to_be_focused()


def test_what_is_open_and_where_one_is_stay_without_a_name(browser: Browser, site: Site) -> None:
    """A <summary> has neither name nor address."""
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open(f"/chains/{ID}")
        expect(page.locator("html")).to_have_attribute("data-events", "open")
        summary = page.locator("#links-table > summary")
        summary.press("Enter")
        pause(site)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)
        expect(summary).to_be_focused()
        expect(page.locator("#links-table table")).to_be_visible()
    with visiting(browser, site.url) as visitor:
        visitor.open("/accuracy")
        assert visitor.page.locator("details:not([id])").count() == 0


def test_the_age_goes_on_though_nothing_changes(browser: Browser, site: Site) -> None:
    """The service answers 304 as long as the queue is not read: its age grows all the same."""
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        page.clock.install()
        answers: list[int] = []
        page.on("response", lambda answer: answers.append(answer.status))
        visitor.open("/")
        age = page.locator("time[data-age]").first
        expect(age).to_have_text("34 s ago")
        for _ in range(3):  # the page asks each minute
            with page.expect_response(lambda answer: answer.status == 304):
                page.clock.run_for(60_000)
        page.clock.run_for(1000)
        expect(age).to_have_text("4 min ago")
        assert answers.count(304) >= 3  # its clock goes by itself as well
        answer = visitor.page.reload()
        assert answer is not None
        assert answer.status == 200, "not a copy that has the age it had"


def asked_in(visitor: Visitor, minutes: int) -> list[str]:
    """What the page asks for while its clock goes on by so many minutes: it looks each minute."""
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.page.clock.run_for(minutes * 60_000)
    return asked


def test_a_page_that_is_held_stays_as_it_is_until_it_is_let_go(
    browser: Browser, site: Site
) -> None:
    """WCAG 2.2.2: what updates by itself can be stopped."""
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        page.clock.install()
        visitor.open("/")
        hold = page.get_by_role("button", name="Freeze this page")
        hold.press("Enter")
        pause(site)
        assert asked_in(visitor, 5) == []
        hold.press("Enter")
        page.clock.run_for(1000)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)


def test_nothing_is_taken_from_who_fills_in_a_form(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        page.clock.install()
        visitor.open("/")
        page.get_by_label("User").fill("ali")
        pause(site)
        assert asked_in(visitor, 5) == []
        assert page.get_by_label("User").input_value() == "ali"
        page.get_by_label("User").press("Tab")
        page.clock.run_for(1000)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)


def test_words_that_are_marked_stay_marked(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        page.clock.install()
        visitor.open("/")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('main h1'))")
        pause(site)
        assert asked_in(visitor, 5) == []
        page.evaluate("getSelection().removeAllRanges()")
        page.clock.run_for(1000)
        expect(page.get_by_text("paused by alice")).to_be_visible(timeout=SOON_MS)


def test_a_service_that_is_gone_is_said(
    browser: Browser, closing_site: tuple[Site, ExitStack]
) -> None:
    site, stack = closing_site
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open("/")
        expect(page.locator("html")).to_have_attribute("data-events", "open")
        stack.close()
        expect(page.locator("#live")).to_contain_text(
            "Connection lost. This page shows the state of", timeout=SOON_MS
        )
        expect(page.get_by_role("heading", name="Chains by risk")).to_be_visible()


def test_a_page_that_is_as_it_was_is_not_sent_again(site: Site) -> None:
    first = site.client.raw("GET", "/", headers={"Accept": "text/html"})
    again = {"Accept": "text/html", "If-None-Match": first.headers["etag"]}
    same = site.client.raw("GET", "/", headers=again)
    assert (same.status_code, same.text) == (304, "")
    pause(site)
    assert site.client.raw("GET", "/", headers=again).status_code == 200
