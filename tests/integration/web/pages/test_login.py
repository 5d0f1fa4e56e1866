"""A browser's session: begun with a token, ended by its user, by time, and with the token."""

import re
from contextlib import ExitStack
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from mirage.database.events import audit
from mirage.web.identity import sessions, tokens
from mirage.web.shared.allowed_hosts import build_hosts
from tests.integration.web.pages.over_https import over_https
from tests.support.api.running import NOW
from tests.support.web.credentials import session_of, token_of
from tests.support.web.looking import visiting
from tests.support.web.seeded import ONE
from tests.support.web.seeded_chain import chain_id
from tests.support.web.serving import Site, serving

CHAIN_PAGE = f"/chains/{chain_id(0)}"
HTML = {"Accept": "text/html"}
OURS = {"Sec-Fetch-Site": "same-origin"}


def log_in(site: Site, token: str, **headers: str) -> dict[str, str]:
    """What the service answers; the cookie's words under `set-cookie`."""
    answer = site.client.raw(
        "POST", "/login", data={"token": token}, headers=HTML | (headers or OURS)
    )
    return dict(answer.headers) | {"status": str(answer.status_code)}


def who(site: Site, cookie: str) -> bool:
    """Whether the page greets somebody."""
    answer = site.client.raw("GET", "/", headers=HTML | {"Cookie": f"mirage_session={cookie}"})
    assert answer.status_code == 200
    return "Log out" in answer.text


def type_token(page: Page, token: str) -> None:
    """Once the browser has put the cursor into the field, which it does after it has loaded."""
    page.locator("input[name=token]:focus").wait_for()
    page.keyboard.type(token)


def test_a_token_logs_in_by_keyboard_and_leads_back(browser: Browser, site: Site) -> None:
    token = token_of(site.store, site.cluster_id, "alice")
    with visiting(browser, site.url) as visitor:
        page = visitor.page
        visitor.open(CHAIN_PAGE)
        assert page.get_by_role("button", name="Pause").count() == 0
        page.get_by_role("link", name="Log in").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/login?**")
        type_token(page, token)
        page.keyboard.press("Enter")
        page.wait_for_url(site.url + CHAIN_PAGE)
        assert page.get_by_role("button", name="Pause").count() == 1
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert token not in cookie["value"]
        page.get_by_role("button", name="Log out").press("Enter")
        page.wait_for_url(f"{site.url}/login")
        assert page.context.cookies() == []
        assert not who(site, cookie["value"]), "the session is over, not the cookie alone"
        assert visitor.complaints == []


def test_a_wrong_token_is_refused_in_words_and_in_the_audit(browser: Browser, site: Site) -> None:
    with visiting(browser, site.url) as visitor:
        visitor.open("/login")
        type_token(visitor.page, "mirage_000000000000_<b>no</b>")
        visitor.page.keyboard.press("Enter")
        said = visitor.page.get_by_role("alert")
        assert "there is no such token" in said.inner_text()
    with site.store.read() as tx:
        (entry, *_) = audit.list_entries(tx, site.cluster_id)
    assert entry.event == "refused: not identified"
    assert "mirage_" not in str(entry.detail)


def test_a_session_ends_with_its_token_and_by_time(site: Site) -> None:
    cookie = session_of(site.store, site.cluster_id, "alice")
    assert who(site, cookie)
    with site.store.begin() as tx:
        later = NOW + sessions.MAX_LIFETIME_S
        given = {"cluster_id": site.cluster_id}
        assert sessions.find_session_caller(tx, cookie, now=later - 1, **given) is not None
        assert sessions.find_session_caller(tx, cookie, now=later, **given) is None
    token = token_of(site.store, site.cluster_id, "alice")
    with site.store.begin() as tx:
        begun = sessions.begin_session(tx, token, cluster_id=site.cluster_id, now=NOW)
        token_id = begun.caller.via.removeprefix("token ")
        tokens.revoke_token(tx, token_id, cluster_id=site.cluster_id, now=NOW, actor="root")
    assert not who(site, begun.secret)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {},
    ],
    ids=["another site", "a sibling", "by origin", "no origin", "nothing said"],
)
def test_a_write_that_no_page_of_ours_sends_is_refused(site: Site, headers: dict[str, str]) -> None:
    held = {"Cookie": f"mirage_session={site.sessions['alice']}"}
    for path in (f"{CHAIN_PAGE}/pause", f"/api/v1{CHAIN_PAGE}/pause", "/login", "/logout"):
        answer = site.client.raw("POST", path, headers=headers | held)
        assert answer.status_code == 403, path
    assert who(site, site.sessions["alice"])


def test_the_cookie_is_for_https_alone_where_the_browser_came_by_it(site: Site) -> None:
    token = token_of(site.store, site.cluster_id, "alice")
    plain = log_in(site, token)["set-cookie"]
    assert plain.startswith("mirage_session=")
    assert "Secure" not in plain
    host = site.url.removeprefix("http://")
    assert_is_of_this_host(log_in(site, token, Origin=f"https://{host}")["set-cookie"])


def assert_is_of_this_host(cookie: str) -> None:
    """As browsers want it of a name that begins with __Host-."""
    name, *attributes = cookie.split("; ")
    assert name.startswith("__Host-mirage_session=")
    assert {"Secure", "Path=/", "HttpOnly", "SameSite=strict"} <= set(attributes)
    assert not any(said.startswith("Domain") for said in attributes)


def test_where_browsers_come_by_https_no_other_cookie_is_believed(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """A page of a neighbour's, and anybody on the way of http, can set one of the plain name: whose
    browser takes it acts as somebody else."""
    known = build_hosts((), ("https://hpc.example.org",))
    with serving(sqlite_template, tmp_path, ONE, hosts=known, root_path="/mirage") as site:
        public = HTML | {"Host": "hpc.example.org"}

        def greeted(cookie: str, **headers: str) -> bool:
            held = public | {"Cookie": cookie} | headers
            return "Log out" in site.client.raw("GET", "/mirage/", headers=held).text

        token = token_of(site.store, site.cluster_id, "alice")
        set_cookie = log_in(site, token, **public, **OURS)["set-cookie"]
        assert_is_of_this_host(set_cookie)
        kept = set_cookie.partition(";")[0]
        others = f"mirage_session={session_of(site.store, site.cluster_id, 'bob')}"
        assert greeted(kept)
        assert not greeted(others)
        assert greeted(others, Host="127.0.0.1"), "by http to this host, as before"
        over_http = log_in(site, token, **public, Origin="http://hpc.example.org")
        assert over_http["status"] == "403"
        assert "set-cookie" not in over_http
        ours = public | OURS | {"Cookie": f"{others}; {kept}"}
        answer = site.client.raw("POST", "/mirage/logout", headers=ours)
        assert_is_of_this_host(answer.headers["set-cookie"])
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert not greeted(kept)
        assert greeted(others, Host="127.0.0.1"), "which was not this page's to end"


def test_a_browser_keeps_and_gives_back_the_cookie_of_https(
    browser: Browser, sqlite_template: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        front = stack.enter_context(over_https(tmp_path))
        known = build_hosts((), (front.url,))
        site = stack.enter_context(serving(sqlite_template, tmp_path, ONE, hosts=known))
        front.behind = site.url
        visitor = stack.enter_context(visiting(browser, front.url))
        page = visitor.page
        visitor.open("/login")
        type_token(page, token_of(site.store, site.cluster_id, "alice"))
        page.keyboard.press("Enter")
        page.wait_for_url(f"{front.url}/")
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["path"]) == ("__Host-mirage_session", "/")
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        visitor.open(CHAIN_PAGE)
        page.get_by_role("button", name="Pause").press("Enter")
        page.get_by_role("button", name="Resume").wait_for()
        page.get_by_role("button", name="Log out").press("Enter")
        page.wait_for_url(f"{front.url}/login")
        assert page.context.cookies() == []
        assert visitor.complaints == []


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aX: y", "x"]
)
def test_a_login_leads_to_no_other_host(site: Site, after: str) -> None:
    token = token_of(site.store, site.cluster_id, "alice")
    answer = site.client.raw("POST", "/login", data={"token": token, "next": after}, headers=OURS)
    assert answer.status_code == 303
    where = answer.headers["location"]
    assert where.startswith("/")
    assert not where.startswith(("//", "/\\"))


def test_log_in_leads_back_to_what_was_asked_for(site: Site) -> None:
    page = site.client.raw("GET", "/impact?days=365&x=it's%2Bthis", headers=HTML).text
    (link,) = re.findall(r'href="(/login\?next=[^"]*)"', page)
    form = site.client.raw("GET", unescape(link), headers=HTML).text
    (kept,) = re.findall(r'name="next" value="([^"]*)"', form)
    assert unescape(kept) == "/impact?days=365&x=it%27s%2Bthis"


def test_a_user_s_own_service_knows_its_owner_alone(sqlite_template: Path, tmp_path: Path) -> None:
    with serving(sqlite_template, tmp_path, ONE, owner_uid=1001) as site:
        unknown = site.client.raw("GET", CHAIN_PAGE, headers=HTML)
        assert unknown.status_code == 303
        assert unknown.headers["location"] == f"/login?next=%2Fchains%2F{chain_id(0)}"
        assert site.client.raw("GET", "/login", headers=HTML).status_code == 200
        others = token_of(site.store, site.cluster_id, "bob")
        assert log_in(site, others)["status"] == "401"
        assert log_in(site, token_of(site.store, site.cluster_id, "alice"))["status"] == "303"


def test_what_the_cluster_hides_asks_for_a_login(sqlite_template: Path, tmp_path: Path) -> None:
    private = frozenset({"jobs"})
    with serving(sqlite_template, tmp_path, ONE, hidden=lambda: private) as site:
        assert site.client.raw("GET", "/", headers=HTML).status_code == 303
        seen = {}
        for user in ("alice", "bob"):
            cookie = session_of(site.store, site.cluster_id, user)
            held = HTML | {"Cookie": f"mirage_session={cookie}"}
            seen[user] = [
                site.client.raw("GET", path, headers=held).status_code for path in ("/", CHAIN_PAGE)
            ]
            listed = site.client.raw("GET", "/", headers=held).text
            assert (chain_id(0) in listed) == (user == "alice")
        assert seen == {"alice": [200, 200], "bob": [200, 404]}


def test_a_token_for_reading_has_no_buttons(site: Site) -> None:
    cookie = session_of(site.store, site.cluster_id, "alice", read_only=True)
    held = HTML | OURS | {"Cookie": f"mirage_session={cookie}"}
    page = site.client.raw("GET", CHAIN_PAGE, headers=held)
    assert "Logs of all links" in page.text
    assert "/pause" not in page.text
    assert site.client.raw("POST", f"{CHAIN_PAGE}/pause", headers=held).status_code == 403


def test_what_a_session_is_made_of_is_in_no_database(site: Site) -> None:
    cookie = session_of(site.store, site.cluster_id, "alice")
    with site.store.read() as tx:
        rows = tx.exec_driver_sql("SELECT digest FROM sessions").all()
    assert rows
    assert cookie not in str(rows)
