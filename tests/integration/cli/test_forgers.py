"""`mirage chain` beside somebody who listens where the service is thought to be."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.cli.connection.suggestions import rest
from tests.integration.cli.test_chain import run
from tests.integration.slurm_plugin.test_who_answers import own_address
from tests.support.api.running import CHAIN
from tests.support.mirage_process import Answer
from tests.support.slurm_plugin.forger import Forger, as_root, folder_of, forging

pytestmark = as_root

TOKEN = "mirage_0123456789ab_" + "A" * 43
UNIDENTIFIED = 'HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{"detail": "who?"}'


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    return str(file)


@pytest.fixture(params=["port", "socket"])
def forger(request: pytest.FixtureRequest) -> Iterator[Forger]:
    """Who asks for a credential, so that even those who only look would show one."""
    with folder_of(0, 0o1777) as folder:
        path = folder / "socket" if request.param == "socket" else None
        with forging(UNIDENTIFIED, path=path) as made:
            yield made


def is_refused(answer: Answer) -> bool:
    return (
        answer.code == 5
        and answer.err.count("\n") == 1
        and "who is neither root nor mirage nor you: set " in answer.err
    )


@pytest.mark.usefixtures("munge")
@pytest.mark.parametrize("words", [("list",), ("show", CHAIN), ("pause", CHAIN), ("cancel", CHAIN)])
@pytest.mark.parametrize("by", ["token", "MUNGE"])
def test_they_hear_nothing(forger: Forger, token: str, words: tuple[str, ...], by: str) -> None:
    more = {"MIRAGE_TOKEN_FILE": token} if by == "token" else {}
    answer = run(*words, url=forger.url, **more)
    assert forger.read_requests() == ""
    assert is_refused(answer)


def test_a_token_goes_over_no_network_without_https(token: str) -> None:
    with forging(UNIDENTIFIED, uid=0, host=own_address()) as elsewhere:
        for words in (("list",), ("pause", CHAIN)):
            answer = run(*words, url=elsewhere.url, MIRAGE_TOKEN_FILE=token)
            assert TOKEN not in elsewhere.read_requests()
            assert answer.code == 5
            assert "Mirage sends a token over https alone" in answer.err


LONG_ID = "0abc" * 5


def build_answer(chain_id: str, *, state: str = "paused", next_page: str | None = None) -> str:
    """An answer that passes for a list of chains and for a chain."""
    row = {
        "chain_id": chain_id,
        "user": "alice",
        "state": state,
        "links_started": 1,
        "links_planned": 8,
        "running": [101],
        "handovers_done": 0,
        "created_at": "2027-01-15T06:00:00Z",
        "note": "late",
        "stale": False,
    }
    body = json.dumps({"items": [row], "next": next_page} | row)
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}"


@pytest.mark.usefixtures("munge")
@pytest.mark.parametrize("words", [("list",), ("pause", LONG_ID)])
def test_whoever_answers_over_http_gives_the_terminal_no_command(words: tuple[str, ...]) -> None:
    title = "\x1b]0;owned\x07"
    answer = build_answer(LONG_ID + title, state="active" + title)
    with forging(answer, uid=0, host=own_address()) as elsewhere:
        done = run(*words, url=elsewhere.url)
    assert done.code == 0
    assert r"active\x1b]0;owned" in done.out
    assert "\x1b" not in done.out + done.err


@pytest.mark.usefixtures("munge")
@pytest.mark.parametrize("words", [("pause", "0abc"), ("cancel", "101"), ("resume", LONG_ID)])
def test_whoever_answers_over_http_does_not_choose_what_the_user_signs(
    words: tuple[str, ...],
) -> None:
    answer = build_answer(f"{LONG_ID}/kill?x=")
    with forging(answer, uid=0, host=own_address()) as elsewhere:
        done = run(*words, url=elsewhere.url)
        requests = elsewhere.read_requests()
    assert "kill" not in requests
    assert words[0] == "resume" or "is not a chain's id" in done.err


def test_the_next_page_of_a_list_is_a_page_of_that_list() -> None:
    first = build_answer(LONG_ID, next_page="/mirage/api/v1/audit?cursor=chains.7")
    with forging(first, build_answer(LONG_ID), uid=0, host=own_address()) as elsewhere:
        assert run("list", url=elsewhere.url).code == 0
        requests = elsewhere.read_requests()
    assert "GET /api/v1/chains?cursor=chains.7 HTTP" in requests
    assert "audit" not in requests


def test_a_redirect_is_followed_with_no_token(token: str) -> None:
    with forging() as bob:
        away = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {bob.url}/\r\n\r\n{{}}"
        with forging(UNIDENTIFIED, away, uid=0) as service:
            assert run("list", url=service.url, MIRAGE_TOKEN_FILE=token).code == 1
            assert TOKEN in service.read_requests()
        assert bob.read_requests() == ""


def test_the_address_of_a_service_that_is_gone_is_not_its_successors(tmp_path: Path) -> None:
    """Of `mirage serve --user`, killed: its file is still there, and bob has its port."""
    with forging() as bob:
        (tmp_path / "url").write_text(f"{bob.url}\n")
        answer = run("list", MIRAGE_URL=(tmp_path / "url").read_text().strip())
        assert bob.read_requests() == ""
        assert is_refused(answer)


def test_without_a_word_it_is_the_packages_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MIRAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    monkeypatch.setenv("MIRAGE_CLIENT_CONF", "/dev/null")
    assert rest.resolve_service_url(None) == "unix:///run/mirage/api.sock"
