"""`mirage chain` beside somebody who listens where the service is thought to be."""

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
