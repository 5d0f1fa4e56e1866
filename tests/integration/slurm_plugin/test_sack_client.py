"""How the plugin makes and verifies credentials through Slurm's own socket."""

import base64
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mirage.domain.callers.request_signing import build_signed_text
from mirage.shipped_files import load_client_module
from tests.support.fixtures.sack import ANYBODY, FakeSackd, run_sackd
from tests.support.patient import PATIENCE_S
from tests.support.slurm_plugin.forger import BOB, as_root, folder_of, forging

sack = load_client_module("client.sack")
credentials = load_client_module("client.credentials")
service = load_client_module("client.service")

SOON_S = 0.2
"""For what never comes."""
PATH = "/api/v1/chains"
STRANGER = BOB


def create(environ: dict[str, str], payload: str = "p", limit_s: float = PATIENCE_S) -> str:
    return str(sack.create_credential(payload, os.geteuid(), environ, limit_s))


def verify(environ: dict[str, str], token: str, limit_s: float = PATIENCE_S) -> bool:
    return bool(sack.verify_credential(token, environ, limit_s))


def build_peer(*, is_known: bool = True, uid: int | None = None) -> object:
    return service.Peer(None, "head", "", is_known, uid=uid)


@pytest.fixture
def environ(sackd: FakeSackd) -> dict[str, str]:
    return sackd.environ | {"PATH": "/nowhere", "MIRAGE_CLIENT_CONF": str(sackd.folder / "none")}


@pytest.mark.parametrize("payload", ["GET /x 00ff lab mirage", "", "ü" * 3000])
def test_what_is_made_is_verified(environ: dict[str, str], payload: str) -> None:
    assert verify(environ, create(environ, payload))


@pytest.mark.parametrize("closes", [False, True])
def test_what_nobody_made_is_not_verified(closes: bool) -> None:
    with run_sackd(closes_on_bad=closes) as here, run_sackd(key=b"other" * 8) as elsewhere:
        good = create(here.environ)
        head, content, signature = good.split(".")
        flipped = "B" if signature[0] == "A" else "A"
        assert verify(here.environ, good)
        assert not verify(here.environ, f"{head}.{content}.{flipped}{signature[1:]}")
        assert not verify(here.environ, create(elsewhere.environ))
        assert not verify(here.environ, here.mint("p", exp=1))
        assert not verify(here.environ, here.mint("p", ruid=os.geteuid() + 1))
        assert not verify(here.environ, "no credential")


def test_a_daemon_that_never_answers_is_given_up() -> None:
    with run_sackd(answers=False) as silent:
        for ask in (create, verify):
            with pytest.raises(service.Unreachable, match=r"sack\.socket gave no answer in 0\.2 s"):
                ask(silent.environ, "a.b.c", SOON_S)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0", id="a piece of a length"),
        pytest.param(struct.pack(">I", 0xFFFFFFFF) + b"a.b.c\0" * 20000, id="more than is read"),
        pytest.param(struct.pack(">I", 100) + b"a.b.c\0", id="less than was promised"),
        pytest.param(struct.pack(">I", 4) + b"a.b\0", id="no credential"),
    ],
)
def test_a_length_that_lies_gives_no_credential(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(FakeSackd, "_answer", lambda _, connection: answer_with(connection, answer))
    with pytest.raises(service.Unreachable, match="gave no credential at"):
        create(environ)


def answer_with(connection: socket.socket, answer: bytes) -> None:
    with connection, suppress(OSError):
        connection.recv(4096)
        connection.sendall(answer)


def test_a_host_without_a_daemon_says_what_to_start(environ: dict[str, str]) -> None:
    environ["SLURM_SACK_SOCKET"] = "/nowhere/sack.socket"
    with pytest.raises(service.Unreachable, match=r"listens on /nowhere/sack\.socket: start sackd"):
        create(environ)


@pytest.fixture(params=["socket", "folder", "no SlurmUser"])
def strange(request: pytest.FixtureRequest, sackd: FakeSackd, tmp_path: Path) -> dict[str, str]:
    """A socket that a user could have put there: by its owner, or by its folder's."""
    if request.param == "socket":
        os.chown(sackd.path, STRANGER, -1)
    elif request.param == "folder":
        os.chown(sackd.folder, STRANGER, -1)
    else:
        os.chown(sackd.path, STRANGER, -1)
        (sackd.folder / "slurm.conf").write_text("ClusterName=lab\n")
    return sackd.environ


@as_root
def test_a_socket_of_somebody_else_is_asked_nothing(
    strange: dict[str, str], sackd: FakeSackd
) -> None:
    token = sackd.mint("p")
    for ask in (create, lambda environ: verify(environ, token)):
        with pytest.raises(service.Unreachable, match=r"belongs to (uid 6502|somebody else)"):
            ask(strange)
    assert sackd.payloads == []


@as_root
def test_a_user_who_listens_on_roots_socket_is_asked_nothing() -> None:
    with folder_of(BOB) as folder, forging(path=folder / "sack.socket") as forger:
        os.chown(folder, 0, 0)
        os.chown(folder / "sack.socket", 0, 0)
        environ = {"SLURM_SACK_SOCKET": str(folder / "sack.socket"), "SLURM_CONF": "/nowhere"}
        with pytest.raises(service.Unreachable, match=f"is listened on by uid {BOB}"):
            create(environ)
        assert forger.read_requests() == ""


@as_root
def test_a_folder_where_all_may_write_is_no_place_for_the_socket(sackd: FakeSackd) -> None:
    sackd.folder.chmod(0o777)
    with pytest.raises(service.Unreachable, match="others may write in"):
        create(sackd.environ)


@as_root
def test_slurmuser_of_slurm_conf_may_own_the_socket(sackd: FakeSackd) -> None:
    for place in (sackd.path, sackd.folder):
        os.chown(place, STRANGER, -1)
    (sackd.folder / "slurm.conf").write_text(f"SlurmUser={STRANGER}\n")
    assert verify(sackd.environ, create(sackd.environ))


# --- which credential a request carries ----------------------------------------------------------


def authorize(environ: dict[str, str], peer: object) -> str:
    made = credentials.build_authorization("POST", PATH, b"{}", peer, environ, PATIENCE_S)
    return str(made)


def test_slurms_own_socket_signs_what_munge_would_sign(
    environ: dict[str, str], sackd: FakeSackd
) -> None:
    scheme, _, token = authorize(environ, build_peer()).partition(" ")
    assert (scheme, verify(environ, token)) == ("SACK", True)
    text, _, nonce = sackd.payloads[0].rpartition(" ")
    assert text == build_signed_text("POST", PATH, b"{}", "lab")
    assert len(nonce) == 16
    assert authorize(environ, build_peer()) != f"SACK {token}", "two of one second differ"


@pytest.mark.parametrize(
    ("line", "uses_sack"),
    [
        ("AuthType=auth/slurm", True),
        ("authtype = AUTH/SLURM # ours", True),
        ("AuthType=auth/munge", False),
        ("", True),
    ],
)
def test_slurm_conf_says_what_identifies_users_and_else_the_socket(
    environ: dict[str, str], sackd: FakeSackd, line: str, uses_sack: bool
) -> None:
    (sackd.folder / "slurm.conf").write_text(f"ClusterName=lab\n{line}\n")
    assert credentials.uses_sack(environ) is uses_sack
    if not line:
        environ["SLURM_SACK_SOCKET"] = "/nowhere"
        assert not credentials.uses_sack(environ)


@pytest.mark.parametrize(
    ("line", "listener", "reader"),
    [
        ("account = 4711", None, 4711),
        ("account = nosuchaccount", None, ANYBODY),
        ("account = 4711", 815, 815),
        ("account = 4711", 0, 4711),
    ],
)
def test_the_service_alone_may_verify_where_its_uid_is_known(
    environ: dict[str, str], sackd: FakeSackd, line: str, listener: int | None, reader: int
) -> None:
    (sackd.folder / "client.conf").write_text(f"{line}\n")
    environ["MIRAGE_CLIENT_CONF"] = str(sackd.folder / "client.conf")
    token = authorize(environ, build_peer(uid=listener)).partition(" ")[2]
    assert read_claims(token)["ruid"] == reader


def read_claims(token: str) -> dict[str, object]:
    part = token.split(".")[1]
    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


@pytest.fixture
def write_token(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "token"
        path.touch(mode=0o600)
        path.write_text(text)
        return str(path)

    return write


def test_a_token_of_a_file_serves_where_neither_socket_nor_munge_does(
    environ: dict[str, str],
    sackd: FakeSackd,
    write_token: Callable[[str], str],
    tmp_path: Path,
) -> None:
    munge = tmp_path / "munge"
    munge.write_text("#!/bin/sh\nexit 6\n")
    munge.chmod(0o755)
    environ["PATH"] = str(tmp_path)
    environ["MIRAGE_TOKEN_FILE"] = write_token("SLURM_JWT=a.b.c\n")
    assert authorize(environ, build_peer()).startswith("SACK ")
    for line in ("AuthType=auth/slurm", "AuthType=auth/munge"):
        (sackd.folder / "slurm.conf").write_text(f"ClusterName=lab\n{line}\n")
        environ["SLURM_SACK_SOCKET"] = "/nowhere"
        assert authorize(environ, build_peer()) == "Bearer a.b.c"
        with pytest.raises(service.Unreachable, match=r"listens on /nowhere|munge gave no"):
            authorize(environ, build_peer(is_known=False))
    os.chmod(environ["MIRAGE_TOKEN_FILE"], 0o644)
    with pytest.raises(service.Unreachable, match="others can read"):
        authorize(environ, build_peer())


def test_a_token_of_the_environment_is_never_sent(environ: dict[str, str]) -> None:
    environ |= {"SLURM_SACK_SOCKET": "/nowhere", "SLURM_JWT": "a.b.c"}
    with pytest.raises(service.Unreachable):
        authorize(environ, build_peer())
