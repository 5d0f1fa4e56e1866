"""The pages Accuracy and Impact: they show what REST tells, say what is estimated, and when it is
too little."""

from typing import Any

import pytest
from playwright.sync_api import Browser
from sqlalchemy import update

from mirage.database.schema.read_model_tables import outcomes
from mirage.web.formatting import format_hours
from tests.support.web.looking import visiting
from tests.support.web.serving import Site

HOSTILE = "<script>alert(1)</script>"


def told(site: Site, path: str) -> dict[str, Any]:
    read: dict[str, Any] = site.client.get(path).json()
    return read


def test_accuracy_shows_what_rest_tells(browser: Browser, sites: dict[str, Site]) -> None:
    site = sites["full"]
    places = told(site, "/api/v1/accuracy?days=90")["places"]
    with visiting(browser, site.url) as visitor:
        visitor.open("/accuracy")
        visitor.page.get_by_role("link", name="90 days").click()
        visitor.page.wait_for_url("**/accuracy?days=90")
        rows = visitor.page.locator("section:has(#h-places) tbody tr")
        assert rows.count() == len(places) == 4
        for row, place in zip(rows.all(), places, strict=True):
            words = row.inner_text()
            assert words.startswith(place["partition"] or "all")
            assert f"{place['count']:,}" in words
            assert f"{100 * place['covered']:.0f} %" in words
        dots = visitor.page.locator("svg[aria-labelledby^=calibration] circle")
        assert dots.count() == len(places[0]["calibration"]) == 19
        assert visitor.complaints == []


def test_impact_shows_what_rest_tells_and_apart_what_is_estimated(
    browser: Browser, sites: dict[str, Site]
) -> None:
    site = sites["full"]
    seen = told(site, "/api/v1/impact")
    with visiting(browser, site.url) as visitor:
        visitor.open("/impact")
        for part, heading in (("act", "measured"), ("shadow", "would have saved")):
            section = visitor.page.locator(f"section:has(#h-{part})")
            assert heading in section.locator("h2").inner_text()
            section.locator("summary").click()
            rows = section.locator("tbody tr")
            assert rows.count() == 4
            for row, saved in zip(rows.all(), seen[part]["saved"], strict=True):
                assert format_hours(saved["interruption_saved_h"]) in row.inner_text()
        assert "Mirage takes it to have waited as long as it did" in visitor.page.inner_text("main")
        first = visitor.page.locator("section:has(#h-chains) tbody tr a").first
        assert first.inner_text() == seen["chains"][0]["chain_id"]


@pytest.mark.parametrize("page", ["accuracy", "impact"])
def test_too_little_is_said(page: str, browser: Browser, empty_site: Site) -> None:
    with visiting(browser, empty_site.url) as visitor:
        visitor.open(f"/{page}")
        assert "Too few" in visitor.page.get_by_role("note").inner_text()
        assert visitor.page.locator("svg").count() == 0


def test_who_paid_may_be_called_anything(browser: Browser, site: Site) -> None:
    with site.store.begin() as tx:
        tx.execute(update(outcomes).values(user=HOSTILE, account=HOSTILE, kind="act"))
    with visiting(browser, site.url) as visitor:
        visitor.open("/impact")
        assert HOSTILE in visitor.page.locator("section:has(#h-payers)").inner_text()
        assert visitor.complaints == []


def test_a_page_of_the_same_minute_is_not_sent_twice(site: Site) -> None:
    for path in ("/accuracy", "/impact"):
        first = site.client.raw("GET", path, headers={"Accept": "text/html"})
        known = {"Accept": "text/html", "If-None-Match": first.headers["etag"]}
        assert site.client.raw("GET", path, headers=known).status_code == 304
