"""The page Admin in a real browser: by keyboard alone, with a real worker beside it."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import admin_overrides, clusters
from mirage.domain.decision import Mode
from mirage.policies import registry
from mirage.reports.slurmctld_load import LoadSensor
from mirage.slurm.commands.sdiag import Diagnosis, UserCalls
from tests.support.api.running import NOW
from tests.support.provision.scene import Scene
from tests.support.training.committed import save
from tests.support.web.looking import visiting
from tests.support.web.seeded import EMPTY
from tests.support.web.serving import Site, serving

TABS = 40
"""At most, until a key reaches what it is to reach."""

FORMS = [
    ("/admin/kill", {}),
    ("/admin/release", {"act_again": "1"}),
    ("/admin/mode", {"mode": "act", "partition": ""}),
    ("/admin/limits/max_touches", {"value": "3"}),
    ("/admin/models/made/1/promote", {"force": "1"}),
]


def tab_to(page: Page, wanted: str) -> None:
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == wanted:
            return
    raise AssertionError(f"no key reaches {wanted}")


def press(page: Page, where: str) -> None:
    """Enter, on what has the focus, leads there."""
    with page.expect_navigation(url=f"**{where}"):
        page.keyboard.press("Enter")


def moves_at_a_tick(scene: Scene) -> bool:
    """The policy would free its standby at any tick."""
    scene.tick()
    return not scene.held


def test_the_kill_switch_by_keyboard_alone(empty_site: Site, browser: Browser) -> None:
    scene = Scene(empty_site.store)
    cookie = empty_site.sessions["root"]
    with visiting(browser, empty_site.url, cookie=cookie) as visitor:
        page = visitor.page
        visitor.open("/admin")
        tab_to(page, "kill")
        press(page, "/admin/kill")
        assert "the cluster, for partitions without a mode of their own" in page.inner_text("main")
        press(page, "/admin?done=pulled")
        assert page.inner_text("#done").startswith(
            "The kill switch is pulled. Mirage changes nothing"
        )
        assert moves_at_a_tick(scene) is False
        assert scene.decisions[-1].mode is Mode.SHADOW
        tab_to(page, "release")
        press(page, "/admin/release")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        press(page, "/admin?done=released")
        assert moves_at_a_tick(scene), "what acted acts again"
        assert visitor.complaints == []


def test_modes_and_limits_are_set_and_told_in_a_sentence(
    empty_site: Site, browser: Browser
) -> None:
    users = (UserCalls(user="mirage", calls=30, us=600_000), UserCalls(user="root", calls=90, us=0))
    told = Diagnosis(at=NOW - 120, since=None, users=users)
    sensor = LoadSensor(lambda: (told, "mirage"), every_s=600)
    sensor.poll_if_due(empty_site.store, empty_site.cluster_id, told.at)
    with visiting(browser, empty_site.url, cookie=empty_site.sessions["root"]) as visitor:
        page = visitor.page
        visitor.open("/admin")
        counted = page.inner_text("#slurmctld")
        assert "counts 30 calls by user mirage since its start (25.0% of 120)" in counted
        for again in (True, False):
            page.fill("#partition", "gpu")
            page.select_option("#mode-new", "act")
            page.click("#set-mode-new")
            assert page.inner_text("#done").startswith("The mode is set")
            if again:
                page.click("#unset-mode-2")
                assert page.inner_text("#done").startswith("The partition has no mode of its own")
        page.fill("#limit-max_touches", "3")
        page.click("#set-max_touches")
        assert page.inner_text("#done").startswith("The limit is set")
        row = page.locator("tr", has=page.locator("#limit-max_touches"))
        assert "root" in row.inner_text()
        page.click("#unset-max_touches")
        assert page.inner_text("#done") == "The limit is back at its configured value."
    with empty_site.store.read() as tx:
        assert clusters.list_modes(tx, empty_site.cluster_id)["gpu"] is Mode.ACT


def test_others_see_nothing_of_it(site: Site, browser: Browser) -> None:
    with visiting(browser, site.url, cookie=site.sessions["alice"]) as visitor:
        visitor.open("/")
        assert visitor.page.locator("nav a", has_text="Admin").count() == 0
        answer = visitor.open("/admin")
        assert answer.status == 403
        assert "alice is not an admin of this service" in visitor.page.inner_text("main")
        assert "kill" not in visitor.page.inner_text("main").lower()
    with visiting(browser, site.url) as visitor:
        visitor.open("/admin")
        assert visitor.page.url.endswith("/login?next=%2Fadmin")


def send(site: Site, path: str, fields: dict[str, str], **headers: str) -> int:
    sent = {"Content-Type": "application/x-www-form-urlencoded"} | headers
    answer = site.client.raw("POST", path, content=urlencode(fields).encode(), headers=sent)
    return answer.status_code


def stored(site: Site) -> tuple[object, ...]:
    """What the forms change."""
    with site.store.read() as tx:
        modes = clusters.list_modes(tx, site.cluster_id)
        pulled = admin_overrides.list_pulled_switches(tx, site.cluster_id)
        return modes, pulled, admin_overrides.list_limit_overrides(tx, site.cluster_id)


@pytest.mark.parametrize(("path", "fields"), FORMS)
def test_forms_are_taken_from_admins_and_our_own_pages_alone(
    path: str, fields: dict[str, str], sqlite_template: Path, tmp_path: Path
) -> None:
    save(tmp_path / "models" / "made" / "1")
    home = tmp_path / "site"
    home.mkdir()
    with serving(sqlite_template, home, EMPTY, models_dir=tmp_path / "models") as site:
        before = stored(site)
        own = {"Sec-Fetch-Site": "same-origin"}
        root, alice = (f"mirage_session={site.sessions[who]}" for who in ("root", "alice"))
        assert send(site, path, fields, **own) == 401
        assert send(site, path, fields, Cookie=alice, **own) == 403
        for strange in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "http://elsewhere.example"},
            {},
        ):
            assert send(site, path, fields, Cookie=root, **strange) == 403
        assert stored(site) == before
        assert registry.find_promoted_version(tmp_path / "models" / "made") is None
        assert send(site, path, fields, Cookie=root, **own) == 303


def test_a_models_page_promotes_it_without_a_comparison_where_it_is_told_to(
    sqlite_template: Path, tmp_path: Path, browser: Browser
) -> None:
    save(tmp_path / "models" / "made" / "1")
    home = tmp_path / "site"
    home.mkdir()
    with serving(sqlite_template, home, EMPTY, models_dir=tmp_path / "models") as site:
        cookie = site.sessions["root"]
        with visiting(browser, site.url, cookie=cookie) as visitor:
            visitor.open("/admin")
            visitor.page.click("text=models/made/1")
            visitor.page.click("#promote")
            assert "twin or quantile decides now" in visitor.page.inner_text("#refused")
            visitor.page.check("#force")
            visitor.page.click("#promote")
            assert visitor.page.inner_text("#done") == "It is in use now."
            assert "by root" in visitor.page.inner_text("#main")
            visitor.open("/admin/audit?event=model+promoted")
            assert visitor.page.locator("tbody tr").count() == 1
            refused = "409 (Conflict)"
            assert [one for one in visitor.complaints if refused not in one] == []
    assert registry.find_promoted_version(tmp_path / "models" / "made") == "1"


def test_what_the_site_has_learned_is_shown_and_decided(
    sqlite_template: Path, tmp_path: Path, browser: Browser
) -> None:
    model = "models/site-lab/1"
    save(tmp_path / model)
    home = tmp_path / "site"
    home.mkdir()
    figures = {
        model: {"interruption_h": 0.4, "overlap_h": 0.3},
        "quantile": {"interruption_h": 1.0, "overlap_h": 0.5, "interruption_h_ci": [0.5, 1.5]},
    }
    with serving(sqlite_template, home, EMPTY, models_dir=tmp_path / "models") as site:
        with site.store.begin() as tx:
            run_id = learning_runs.begin_run(tx, site.cluster_id, at=NOW - 900, reason="no model")
            plan = {"weeks": 3, "handovers": 1084}
            document = {"figures": figures, "sentence": "one is proposed", "plan": plan}
            learning_runs.finish_run(
                tx, run_id, at=NOW - 300, state=RunState.DONE, document=document
            )
            challenge_id = challenges.start_challenge(
                tx, site.cluster_id, model=model, champion=None, at=NOW - 900
            )
            challenges.close_challenge(
                tx,
                challenge_id,
                state=ChallengeState.PROPOSED,
                at=NOW - 300,
                evidence={"why": "costs less than twin: <b>-0.3 h</b>"},
            )
        with visiting(browser, site.url, cookie=site.sessions["root"]) as visitor:
            page = visitor.page
            visitor.open("/admin")
            section = page.inner_text("#learning")
            assert "one is proposed" in section
            assert "3 weeks, 1,084 hand-overs" in section
            assert "costs less than twin: <b>-0.3 h</b>" in section
            assert page.locator("#learned-scroll circle").count() == 4
            assert page.locator("#take-back").count() == 0
            page.click("#promote-challenger")
            assert page.inner_text("#done").startswith("The model is in use")
            assert page.locator("#champion").inner_text().startswith(model)
            page.click("#take-back")
            assert page.inner_text("#done") == "The model is not in use any more."
            assert "no model of this site" in page.inner_text("#champion")
            visitor.open("/admin/audit?event=model+taken+back")
            assert page.locator("tbody tr").count() == 1
            assert visitor.complaints == []


def test_what_users_are_called_stays_text(empty_site: Site, browser: Browser) -> None:
    name = "<img src=x onerror=alert(1)>"
    with empty_site.store.begin() as tx:
        clusters.set_mode(tx, empty_site.cluster_id, Mode.ACT, name)
    with visiting(browser, empty_site.url, cookie=empty_site.sessions["root"]) as visitor:
        visitor.open("/admin")
        assert f"partition {name}" in visitor.page.inner_text("#modes")
        assert visitor.complaints == []
