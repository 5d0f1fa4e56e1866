"""Everything on a page is reached with the tab key, and one sees where one is."""

import pytest
from playwright.sync_api import Browser

from tests.integration.web.pages.shown import PAGES, Shown
from tests.support.web.looking import visiting
from tests.support.web.serving import Site

OPERABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
SEEN = f"""[...document.querySelectorAll("{OPERABLE}")].filter(e => e.checkVisibility())"""
PLACE = f"{SEEN}.indexOf(document.activeElement)"


@pytest.mark.parametrize("shown", [pytest.param(page, id=page.name) for page in PAGES])
def test_tabbing_reaches_all_of_it_in_order(
    shown: Shown, browser: Browser, sites: dict[str, Site]
) -> None:
    site = sites["one"]
    cookie = site.sessions[shown.who] if shown.who else None
    with visiting(browser, site.url, cookie=cookie) as visitor:
        page = visitor.page
        visitor.open(shown.path)
        reached: list[int] = []
        wanted = set(range(page.evaluate(f"{SEEN}.length")))
        # A date has several stops in one field, and a page may begin in its first field.
        for _ in range(3 * len(wanted)):
            page.keyboard.press("Tab")
            at = page.evaluate(PLACE)
            if at in wanted and at not in reached:
                assert page.evaluate("document.activeElement.matches(':focus-visible')")
                reached.append(at)
            if set(reached) == wanted:
                break
        assert set(reached) == wanted
        first = reached.index(0)
        assert reached[first:] + reached[:first] == sorted(wanted), "in the order of the page"


def test_the_first_key_skips_to_the_content(browser: Browser, sites: dict[str, Site]) -> None:
    with visiting(browser, sites["one"].url) as visitor:
        visitor.open("/")
        visitor.page.keyboard.press("Tab")
        visitor.page.keyboard.press("Enter")
        assert visitor.page.evaluate("document.activeElement.id") == "main"
