"""The page of a chain: what it shows of it, and its owner's buttons."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from mirage.database.chains import chains
from mirage.domain.chain import ChainState
from mirage.web.shared.auth.cookie_auth import COOKIE
from tests.support.web.looking import visiting
from tests.support.web.seeded import ONE
from tests.support.web.seeded_chain import chain_id
from tests.support.web.serving import Site, serving

ID = chain_id(0)
PAGE = f"/chains/{ID}"
HTML = {"Accept": "text/html"}
WISHED = "A setting that the comment lacks has its strictest value: style concurrent"
MARKUP = "<img src=x onerror=alert(1)>"


def state(site: Site) -> ChainState:
    with site.store.read() as tx:
        return chains.get_chain(tx, 1, ID).state


def test_its_owner_pauses_resumes_and_stops_it_by_keyboard(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url, cookie=site.sessions["alice"]) as visitor:
        page = visitor.page
        visitor.open(PAGE)
        page.get_by_role("button", name="Pause").press("Enter")
        page.get_by_role("button", name="Resume").wait_for()
        assert state(site) is ChainState.PAUSED
        page.get_by_role("button", name="Resume").press("Enter")
        page.get_by_role("button", name="Pause").wait_for()
        assert state(site) is ChainState.ACTIVE
        page.get_by_text("Stop the chain...").press("Enter")
        page.get_by_role("button", name="Stop the chain and").press("Enter")
        page.get_by_text("cancelled by alice").wait_for()
        assert state(site) is ChainState.CANCELLED
        assert page.get_by_role("button", name="Pause").count() == 0
        assert visitor.complaints == []


def test_others_see_it_without_buttons_and_logs(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        visitor.open(PAGE)
        headings = visitor.page.get_by_role("heading", level=2).all_inner_texts()
    assert "Decisions" in headings
    assert not [words for words in headings if words.startswith("Logs")]


def test_its_first_words_say_when_its_next_link_is_expected(browser: Browser, site: Site) -> None:
    served = site.client.get(f"/api/v1{PAGE}").json()["expected_start"]
    with visiting(browser, site.url) as visitor:
        visitor.open(PAGE)
        words = visitor.page.locator("#expected").inner_text()
        instants = visitor.page.locator("#expected time")
        listed = [one.get_attribute("datetime") for one in instants.all()]
    assert words.startswith(f"Link {served['link']} is expected to start at ")
    assert listed == [served["at"], served["earliest"], served["latest"]]


@pytest.mark.parametrize(
    ("max_overlap_s", "overlap"), [(None, "no overlap"), (1200, "an overlap of 20 min at most")]
)
def test_one_that_nobody_registered_tells_what_counts(
    site: Site, max_overlap_s: int | None, overlap: str
) -> None:
    with site.store.begin() as tx:
        known = chains.get_chain(tx, 1, ID)
        found = replace(known, links_planned=None, style=None, max_overlap_s=max_overlap_s)
        chains.save_chain(tx, 1, found)
    shown = site.client.raw("GET", PAGE, headers=HTML)
    assert shown.status_code == 200
    told = f"{WISHED}, {overlap}. "
    assert f"Nobody registered this chain: Mirage found it by the comment of its jobs. {told}" in (
        shown.text
    )


def test_what_cannot_be_is_told_as_a_page(browser: Browser, site: Site) -> None:
    held = {"Cookie": f"mirage_session={site.sessions['alice']}", "Sec-Fetch-Site": "same-origin"}
    for verb, expected in (("cancel", 303), ("cancel", 303), ("pause", 409)):
        answer = site.client.raw("POST", f"{PAGE}/{verb}", headers=HTML | held)
        assert answer.status_code == expected
    assert "it cannot become paused" in answer.text
    assert "/problems/conflict" in answer.text


@pytest.mark.parametrize("path", ["/chains/nosuch00", "/nothing", "/chains/NO!", "/?after=zero"])
def test_what_is_not_there_is_a_page_to_people_and_a_problem_to_programs(
    site: Site, path: str
) -> None:
    shown = site.client.raw("GET", path, headers=HTML)
    told = site.client.raw("GET", path)
    assert shown.status_code == told.status_code
    assert 400 <= shown.status_code < 500
    assert "<h1>" in shown.text
    assert told.headers["content-type"] == "application/problem+json"


def test_what_users_write_is_never_markup(browser: Browser, site: Site) -> None:
    with site.store.begin() as tx:
        tx.exec_driver_sql("UPDATE chains SET actor = 'user', reason = 'unrecorded'")
        said = "UPDATE chains SET reason_detail = ?, user = ?, policy = ?"
        tx.exec_driver_sql(said, (MARKUP,) * 3)
        tx.exec_driver_sql("UPDATE links SET partition = ?, reason = ?", (MARKUP,) * 2)
        tx.exec_driver_sql("UPDATE decisions SET reason = ?, policy = ?", (MARKUP,) * 2)
    with visiting(browser, site.url, cookie=site.sessions["root"]) as visitor:
        for path in ("/", PAGE):
            visitor.open(path)
            assert MARKUP in visitor.page.locator("main").inner_text()
            assert visitor.page.locator("main img").count() == 0
        assert visitor.complaints == []


def test_interruptions_are_drawn_to_scale(browser: Browser, site: Site) -> None:
    """A gap twice as long is twice as wide."""
    told = site.client.get(f"/api/v1/chains/{ID}/timeline").json()
    late = [h["interruption_h"] for h in told["handovers"] if h["interruption_h"]]
    assert len(late) >= 2
    with visiting(browser, site.url) as visitor:
        visitor.open(PAGE)
        found = visitor.page.locator("#links-scroll rect.gap")
        widths = [float(found.nth(n).get_attribute("width") or 0) for n in range(found.count())]
    assert len(widths) == len(late)
    wide = [(w, h) for w, h in zip(widths, late, strict=True) if w > 2]
    assert [w / h for w, h in wide] == pytest.approx([wide[0][0] / wide[0][1]] * len(wide), rel=0.1)


def test_it_stands_below_the_root_of_a_proxy(
    browser: Browser, sqlite_template: Path, tmp_path: Path
) -> None:
    """That leaves the prefix on, here; REST is asked for with it taken off."""
    with serving(sqlite_template, tmp_path, ONE, root_path="/tools/mirage") as site:
        with visiting(browser, site.url, cookie=site.sessions["alice"]) as visitor:
            visitor.open("/tools/mirage/")
            assert visitor.page.locator("nav a[aria-current=page]").inner_text() == "Now"
            visitor.page.get_by_role("link", name=ID).first.click()
            visitor.page.get_by_role("button", name="Pause").press("Enter")
            visitor.page.get_by_role("button", name="Resume").wait_for()
            assert visitor.page.url == f"{site.url}/tools/mirage{PAGE}"
            assert visitor.complaints == []
        taken_off = site.client.raw("GET", PAGE, headers=HTML)
        assert f'href="/tools/mirage{PAGE}?link=' in taken_off.text
        page = site.client.get("/api/v1/jobs", limit=1).json()
        assert page["next"].startswith("/tools/mirage/api/v1/jobs?")


def test_a_form_that_is_sent_twice_under_a_key_leads_to_the_page_twice(site: Site) -> None:
    headers = {**HTML, "Cookie": f"{COOKIE}={site.sessions['alice']}", "Origin": site.url}
    again = headers | {"Idempotency-Key": "k"}
    assert site.client.raw("POST", f"{PAGE}/pause", headers=again).status_code == 303
    repeat = site.client.raw("POST", f"{PAGE}/pause", headers=again)
    assert (repeat.status_code, repeat.headers["location"]) == (303, PAGE)
    assert site.client.raw("POST", f"{PAGE}/resume", headers=again).status_code == 422
