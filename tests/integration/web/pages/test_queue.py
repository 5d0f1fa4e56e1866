"""The page Queue: its forms, what it says of a forecast, and what it keeps to itself."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from mirage.database.forecasts import shape_forecasts
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobState
from mirage.reports import wait_statistics
from tests.support.api.rows import HOUR, look, read_running_job
from tests.support.api.running import NOW
from tests.support.web.looking import visiting
from tests.support.web.seeded import ONE
from tests.support.web.serving import Site, serving

HOSTILE = "<img src=x onerror=alert(1)>'\""
FORM = "/queue?to=gpu&nodes=4&time=24:00:00"


@pytest.fixture(
    params=[frozenset({"jobs"}), frozenset({"partitions", "nodes"})], ids=["jobs", "partitions"]
)
def private(
    request: pytest.FixtureRequest, sqlite_template: Path, tmp_path: Path
) -> Iterator[tuple[Site, frozenset[str]]]:
    with serving(sqlite_template, tmp_path, ONE, hidden=lambda: request.param) as made:
        yield made, request.param


def html(site: Site, path: str, who: str = "") -> str:
    held = {"Cookie": f"mirage_session={site.sessions[who]}"} if who else {}
    answer = site.client.raw("GET", path, headers={"Accept": "text/html", **held})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_job_is_described_and_its_wait_is_told_by_keyboard_alone(
    site: Site, browser: Browser
) -> None:
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open("/queue")
        page.get_by_label("Partition").first.focus()
        for text in ("gpu", "4", "24:00:00"):
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**to=gpu*")
        told = page.locator(".told").inner_text()
        assert "100 simulated futures of the queue as it was 4 min ago" in told
        assert "74% started between p10 and p90" in told
        assert page.get_by_label("Nodes").input_value() == "4"
        assert visitor.complaints == []


def test_without_scripts_somebody_known_has_the_twin_asked(site: Site, browser: Browser) -> None:
    cookie = site.sessions["alice"]
    with visiting(browser, site.url, cookie=cookie, scripts=False) as visitor:
        visitor.open("/queue?to=gpu&nodes=6&time=24:00:00&account=physics")
        assert "the most similar job" in visitor.page.locator(".told").inner_text()
        visitor.page.get_by_role("button", name="Simulate exactly this job").click()
        told = visitor.page.locator(".told").inner_text()
        assert "The twin has been asked about exactly your job" in told
        assert not visitor.page.get_by_role("button", name="Simulate exactly this job").count()
    with site.store.read() as tx:
        (asked,) = [
            r for r in shape_forecasts.list_forecasts(tx, site.cluster_id, "gpu") if not r.at
        ]
    assert (asked.shape.nodes, asked.shape.account) == (6, "physics")


def test_somebody_unknown_is_sent_to_log_in_and_asks_nothing(site: Site) -> None:
    assert "/login?next=" in html(site, "/queue?to=gpu&nodes=6&time=24:00:00")
    answer = site.client.raw("POST", "/queue/ask?to=gpu&nodes=6&time=24:00:00")
    assert answer.status_code == 401


def test_a_page_of_another_site_cannot_ask(site: Site) -> None:
    headers = {
        "Cookie": f"mirage_session={site.sessions['alice']}",
        "Sec-Fetch-Site": "cross-site",
    }
    answer = site.client.raw("POST", "/queue/ask?to=gpu&nodes=6&time=1:0:0", headers=headers)
    assert answer.status_code == 403


def test_mistakes_are_said_beside_their_fields(site: Site, browser: Browser) -> None:
    with visiting(browser, site.url) as visitor:
        visitor.open("/queue?to=gpu&nodes=many&time=soon")
        for name, said in (("Nodes", "whole number of nodes"), ("Time limit", "48:00:00")):
            field = visitor.page.locator(f".whatif >> role=textbox[name='{name}']")
            assert field.get_attribute("aria-invalid") == "true"
            hint = field.get_attribute("aria-describedby")
            assert said in visitor.page.locator(f"#{hint}").inner_text()


@pytest.mark.parametrize(
    "query",
    [
        "over=1000y",
        "size=7",
        "limit=never",
        "to=a,b&nodes=1&time=1:0:0",
        "to=x%00&nodes=1&time=1:0:0",
    ],
)
def test_what_no_form_sends_is_passed_over_or_said(site: Site, query: str) -> None:
    assert "<h1>Queue</h1>" in html(site, f"/queue?{query}")


def test_filters_stay_and_the_other_forms_fields_with_them(site: Site) -> None:
    page = html(site, f"{FORM}&over=90d&partition=gpu&size=1")
    assert '<option value="90d" selected>' in page
    assert '<option value="1" selected>1 node</option>' in page
    for name, value in (("over", "90d"), ("partition", "gpu"), ("to", "gpu"), ("nodes", "4")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in page


def test_the_table_has_what_the_chart_draws(site: Site) -> None:
    page = html(site, "/queue?over=14d")
    answer = site.client.get("/api/v1/waits", since="2027-01-02").json()
    started = [point for point in answer["points"] if point["jobs"]]
    assert page.count("<circle class='dot'") == len(started)
    assert f"{answer['whole']['jobs']} jobs started." in page


def hostile(number: int, **more: object) -> Job:
    fields = {"partition": HOSTILE, "reason": HOSTILE, "account": HOSTILE} | more
    return read_running_job(number, **fields)


def test_names_are_data_and_never_markup(empty_site: Site) -> None:
    store: Store = empty_site.store
    waiting = hostile(1, state=JobState.PENDING, start=None)
    look(store, empty_site.cluster_id, waiting, *(hostile(n) for n in range(2, 14)))
    wait_statistics.refresh_sums(store, empty_site.cluster_id, budget_s=60)
    page = html(empty_site, f"/queue?to={HOSTILE}&nodes=1&time=1:0:0&account={HOSTILE}")
    assert HOSTILE not in page
    assert "onerror=alert(1)&gt;" in page or escape(HOSTILE) in page


def test_what_the_cluster_hides_is_not_on_the_page(private: tuple[Site, frozenset[str]]) -> None:
    site, words = private
    held = read_running_job(30, state=JobState.PENDING, start=None, reason="JobHeldUser")
    running = (read_running_job(n, partition="secret") for n in range(20))
    look(site.store, site.cluster_id, held, *running, at=NOW)
    mine, admins = html(site, "/queue", "alice"), html(site, "/queue", "root")
    if "jobs" in words:
        assert "longest wait so far" not in mine
        assert "its owner holds it" not in mine
        assert "other reasons, each of few jobs" in mine
    else:
        assert "secret" not in mine
        assert "usable nodes idle" not in mine
    assert "secret" in admins
    assert "its owner holds it" in admins
    assert "usable nodes idle" in admins


def test_waits_of_few_jobs_are_not_drawn_where_jobs_are_private(
    sqlite_template: Path, tmp_path: Path
) -> None:
    with serving(sqlite_template, tmp_path, ONE, hidden=lambda: frozenset({"jobs"})) as site:
        look(site.store, site.cluster_id, read_running_job(9_999_999, start=NOW - HOUR, nodes=300))
        wait_statistics.refresh_sums(site.store, site.cluster_id, budget_s=60)
        mine, admins = (html(site, "/queue?size=65-up", who) for who in ("alice", "root"))
    assert "1 job started: too few to show their waits." in mine
    assert "<circle class='dot'" not in mine
    assert "1 job started. One in ten" in admins
