"""The card "My chains" of Open OnDemand's dashboard: real Ruby, Rails, Turbo, Chromium and service.

Open OnDemand itself is not here (docs/admin/open-ondemand.md says what was not tried).
"""

import json
import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests import needed
from tests.support import patient
from tests.support.web import ondemand
from tests.support.web.looking import PHONE, visiting
from tests.support.web.ondemand import CARD, DASHBOARD, Dashboard
from tests.support.web.seeded_chain import chain_id


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    if not ondemand.RUBY.exists() or "ruby-railties" in needed.missing():
        needed.absent("Rails is not installed (Debian's package ruby-railties)")
    if not all(needed.fetch_file(package).exists() for package in needed.FROM_NPM):
        needed.absent("Turbo or Bootstrap cannot be fetched: npm, or its registry, is missing")
    folder = tmp_path_factory.mktemp("dashboard")
    with ondemand.run_dashboard(folder, limit_s=patient.PATIENCE_S) as running:
        yield running


@pytest.fixture(scope="module")
def service_socket(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    with ondemand.serve_own_chains(sqlite_template, tmp_path_factory.mktemp("service")) as path:
        yield path


def read_card(dashboard: Dashboard, path: Path) -> str:
    """Return the card's HTML with the service at `path`: what the frame loads."""
    dashboard.name_service(path)
    answer = patient.get(dashboard.url + CARD)
    assert answer.status_code == 200, answer.text
    assert answer.text.count('<turbo-frame id="mirage_chains">') == 1
    return answer.text


def test_the_dashboard_asks_the_service_nothing(dashboard: Dashboard, tmp_path: Path) -> None:
    with ondemand.listen(tmp_path / "socket", ondemand.say_nothing) as impostor:
        dashboard.name_service(impostor.path)
        page = patient.get(dashboard.url + DASHBOARD)
        assert f'src="{CARD}" loading="lazy"' in page.text
        assert impostor.connections == 0


def test_it_shows_the_callers_chains(dashboard: Dashboard, service_socket: Path) -> None:
    card = read_card(dashboard, service_socket)
    shown = set(re.findall(r"seed\d{8}", card))
    assert shown == {chain_id(n) for n in ondemand.OWN}
    assert "is expected to start on" in card
    assert "</strong> policy auto changes nothing: " in card
    assert card.count(">paused<") == card.count(">at risk<") == 1
    assert "Hand-overs so far: " in card


def test_what_others_wrote_is_text(dashboard: Dashboard, service_socket: Path) -> None:
    card = read_card(dashboard, service_socket)
    assert "<script" not in card
    assert (
        "&lt;script&gt;document.title = &#39;broken&#39;&lt;/script&gt; &amp; &quot;quoted" in card
    )


def test_the_page_of_a_user_without_chains_says_how_to_begin(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    answer = {"items": [], "live": 0, "as_of": None, "stale": True}
    body = ondemand.send_page("200 OK", "application/json", json.dumps(answer).encode())
    with ondemand.listen(tmp_path / "socket", ondemand.send(body)) as impostor:
        card = read_card(dashboard, impostor.path)
    assert "mirage chain submit" in card
    assert "Mirage is late" in card


PROBLEM = ondemand.send_page(
    "503 Service Unavailable", "application/problem+json", b'{"detail": "<b>too many</b>"}'
)
AWAY = ondemand.send_page("302 Found", "text/html", more="Location: http://127.0.0.1/\r\n")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ondemand.send(ondemand.HTML), "the answer is 200 text/html. Ask the admins"),
        (ondemand.send(AWAY), "the answer is 302 text/html. Ask the admins"),
        (ondemand.send(PROBLEM), "Mirage refuses: &lt;b&gt;too many&lt;/b&gt;"),
        (ondemand.send(b"\x80\xff\r\n\r\n"), "does not understand the answer"),
        (ondemand.send(b""), "does not answer (end of file reached)"),
        (ondemand.flood, "sends more than 1 MiB"),
    ],
    ids=["html", "redirect", "problem", "not-http", "closed", "endless"],
)
def test_a_service_that_is_none_gives_a_card(
    dashboard: Dashboard, tmp_path: Path, answer: ondemand.Answer, sentence: str
) -> None:
    with ondemand.listen(tmp_path / "socket", answer) as impostor:
        card = read_card(dashboard, impostor.path)
    assert sentence in card
    assert "Your chains go on meanwhile" in card


@pytest.mark.usefixtures("dashboard")  # where it runs, Ruby is there
@pytest.mark.parametrize("answer", [ondemand.say_nothing, ondemand.drip], ids=["silent", "drip"])
def test_a_card_waits_for_no_service_longer_than_its_limit(
    tmp_path: Path, answer: ondemand.Answer
) -> None:
    with ondemand.listen(tmp_path / "socket", answer) as impostor:
        assert "has not answered within 5 s" in ondemand.read_problem(impostor.path)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b"{}",
        b"{",
        b'{"as_of": null, "items": 5}',
        b'{"as_of": null, "items": [{}]}',
        b'{"as_of": 5, "items": [], "live": 0, "stale": false}',
        b"[" * 10_000,
    ],
)
def test_an_answer_of_another_shape_gives_a_card(
    dashboard: Dashboard, tmp_path: Path, body: bytes
) -> None:
    page = ondemand.send_page("200 OK", "application/json", body)
    with ondemand.listen(tmp_path / "socket", ondemand.send(page)) as impostor:
        card = read_card(dashboard, impostor.path)
    assert "does not understand the answer" in card
    assert "of the same version" in card


def test_where_no_service_is_the_card_says_what_to_do(dashboard: Dashboard, tmp_path: Path) -> None:
    assert f"there is no {tmp_path}/socket" in read_card(dashboard, tmp_path / "socket")
    (tmp_path / "file").touch()
    assert "does not answer (Connection refused" in read_card(dashboard, tmp_path / "file")


def test_a_service_of_another_host_is_named(dashboard: Dashboard) -> None:
    dashboard.configuration.write_text("url = https://head.example\n")
    card = patient.get(dashboard.url + CARD).text
    assert "at https://head.example, and this card can ask a service of this host alone" in card


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
def test_another_users_socket_is_not_believed(dashboard: Dashboard, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    with ondemand.listen(tmp_path / "socket", ondemand.send(ondemand.HTML)) as impostor:
        os.chown(impostor.path, nobody.pw_uid, nobody.pw_gid)
        card = read_card(dashboard, impostor.path)
        assert f"belongs to the user with uid {nobody.pw_uid}, who is neither root" in card
        dashboard.configuration.write_text(f"url = unix://{impostor.path}\naccount = nobody\n")
        assert "text/html" in patient.get(dashboard.url + CARD).text


def test_a_dashboard_that_renders_no_widget_alone_names_the_setting(dashboard: Dashboard) -> None:
    page = patient.get(f"{dashboard.url}{DASHBOARD}/unpatched").text
    assert "widget_partials_enabled: true" in page
    assert "src=" not in page.partition("<turbo-frame")[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_a_browser_the_card_comes_by_itself(
    dashboard: Dashboard, service_socket: Path, browser: Browser, axe: str, theme: str
) -> None:
    dashboard.name_service(service_socket)
    with visiting(browser, dashboard.url, size=PHONE) as visitor:
        visitor.open(f"{DASHBOARD}/?theme={theme}")
        text = ondemand.read_frame(visitor)
        assert chain_id(ondemand.OWN[0]) in text
        assert ondemand.HOSTILE in text
        assert visitor.page.title() == "Dashboard"
        assert not visitor.is_cut()
        assert visitor.complaints == []
        assert visitor.list_violations(axe) == []
