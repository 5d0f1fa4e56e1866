"""A page counts from now, and says "in" of nothing once it is too old to know."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mirage.database.operations import clusters
from mirage.domain.decision import Mode
from mirage.provision.control import kill_switch
from tests.support.api.running import NOW
from tests.support.web.looking import visiting
from tests.support.web.seeded import CHAIN, LOOKED_AT, Size
from tests.support.web.serving import Site, serving

FEW = Size(12, 300, 2)
HTML = {"Accept": "text/html"}
IN = re.compile(r"\bin \d+ (?:s|min|h|d)\b")
PATHS = ["/", f"/chains/{CHAIN}", "/queue?to=gpu&nodes=4&time=4:00:00", "/accuracy", "/impact"]


def read(site: Site, path: str) -> str:
    return site.client.raw("GET", path, headers=HTML).text


@pytest.mark.parametrize("path", PATHS)
def test_a_stale_page_has_a_banner_and_no_span_ahead(
    path: str, sqlite_template: Path, tmp_path: Path
) -> None:
    """The queue was read two hours ago."""
    with serving(sqlite_template, tmp_path, FEW, clock=lambda: NOW + 7200) as site:
        page = read(site, path)
        assert IN.findall(page) == []
        assert '<p class="note" id="stale"><strong>Stale:</strong>' in page
        assert "2 h 1 min ago</time>" in page
        assert ">now</text>" not in page


def test_spans_count_from_now_and_not_from_the_last_look(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """Also in a page that the cache has kept since."""
    late = [0]
    with serving(sqlite_template, tmp_path, FEW, clock=lambda: NOW + late[0]) as site:
        first = read(site, "/")
        assert '<p class="note" id="stale" hidden>' in first
        before = [int(age) for age in re.findall(r"data-age='(-\d+)'", first)]
        assert before
        late[0] = 100
        after = [int(age) for age in re.findall(r"data-age='(-\d+)'", read(site, "/"))]
        assert after == [age + 100 for age in before]
        told = re.findall(r"data-age='(-\d+)'[^>]*>in (\d+) min<", read(site, "/"))
        assert told
        assert all(round(-int(age) / 60) == int(minutes) for age, minutes in told)


def test_the_same_page_is_not_sent_again_for_its_spans(
    sqlite_template: Path, tmp_path: Path
) -> None:
    late = [0]
    with serving(sqlite_template, tmp_path, FEW, clock=lambda: NOW + late[0]) as site:
        for path in PATHS[:3]:
            late[0] = 0
            first = site.client.raw("GET", path, headers=HTML)
            late[0] = 60
            held = HTML | {"If-None-Match": first.headers["etag"]}
            assert site.client.raw("GET", path, headers=held).status_code == 304


def test_a_page_that_stays_open_says_so_itself(
    browser: Browser, sqlite_template: Path, tmp_path: Path
) -> None:
    with serving(sqlite_template, tmp_path, FEW) as site, visiting(browser, site.url) as visitor:
        page = visitor.page
        page.clock.install()
        visitor.open("/")
        page.clock.run_for(2000)
        expect(page.locator("#stale")).to_be_hidden()
        assert IN.search(page.locator("main").inner_text())
        page.clock.fast_forward(600_000)
        page.clock.run_for(2000)
        expect(page.locator("#stale")).to_be_visible()
        assert not IN.search(page.locator("main").inner_text())


@pytest.mark.parametrize("path", PATHS)
def test_the_mode_and_the_kill_switch_are_on_every_page(
    path: str, sqlite_template: Path, tmp_path: Path
) -> None:
    with serving(sqlite_template, tmp_path, FEW) as site:
        with site.store.begin() as tx:
            clusters.set_mode(tx, site.cluster_id, Mode.SHADOW)
            clusters.set_mode(tx, site.cluster_id, Mode.ACT, "gpu")
        page = read(site, path)
        assert "mode act in gpu, else shadow</span>" in page
        if path.startswith("/chains"):
            assert 'Mode for this chain</dt><dd><span class="badge mode-act">act<' in page
        with site.store.begin() as tx:
            way = kill_switch.Way.REST
            kill_switch.pull_switch(tx, site.cluster_id, way, now=LOOKED_AT, actor="root")
        page = read(site, path)
        assert "kill switch pulled</span>" in page
        assert "Mirage changes nothing in Slurm" in page
        assert "mode act in gpu" not in page
        with site.store.begin() as tx:
            kill_switch.release_switch(tx, site.cluster_id, now=LOOKED_AT, actor="root")
        assert "mode shadow</span>" in read(site, path), "between two looks at the queue"
        with site.store.begin() as tx:
            kill_switch.pull_switch(tx, site.cluster_id, way, now=LOOKED_AT, actor="root")
        assert "kill switch pulled</span>" in read(site, path), "though nothing acted"
