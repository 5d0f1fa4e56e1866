"""Credentials of Slurm's own socket, as the service takes and refuses them."""

import base64
import json
import os
import pwd
import time
from typing import Any

import pytest

from mirage.domain.callers.request_signing import build_signed_text
from mirage.errors import ClusterUnavailable, NotIdentified
from mirage.service import wiring
from mirage.slurm.clients.auth import sack as subject
from mirage.web.identity.credential_use import UsedCredentials
from tests.support.fixtures.sack import ANYBODY, CLUSTER, FakeSackd, run_sackd
from tests.support.slurm_plugin.forger import BOB, as_root

PAYLOAD = build_signed_text("POST", "/api/v1/chains", b"{}", CLUSTER)
NONCE = " 00112233aabbccdd"
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def verifier(sackd: FakeSackd) -> subject.SackVerifier:
    return build_verifier()


def build_verifier(started_at: int = 0) -> subject.SackVerifier:
    used = UsedCredentials(time.time)
    return wiring.build_sack_verifier(CLUSTER, used.claim_use, started_at=started_at)


@pytest.mark.parametrize("text", [PAYLOAD, PAYLOAD + NONCE])
@pytest.mark.parametrize("claims", [{}, {"ruid": ANYBODY}, {"cluster": "LAB"}])
def test_the_maker_of_a_good_credential_is_the_caller(
    sackd: FakeSackd, verifier: subject.SackVerifier, text: str, claims: dict[str, Any]
) -> None:
    caller = verifier.authenticate_caller(sackd.mint(text, **claims), PAYLOAD)
    assert (caller.uid, caller.user, caller.via) == (os.geteuid(), ME, "sack")
    other = verifier.authenticate_caller(sackd.mint(text, uid=BOB, **claims), PAYLOAD)
    assert (other.uid, other.user, other.counts_alone) == (BOB, f"uid {BOB}", False)


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "user", "why"),
    [
        ({"exp": NOW - 1}, "", "has expired"),
        ({"exp": NOW + 7 * 86400}, ME, "is good for more than 3600 s"),
        ({"cluster": "gpu2"}, ME, "was made on another cluster"),
        ({"cluster": None}, ME, "names no cluster: slurmdbd's socket made it"),
        ({"context": "auth"}, ME, "was made by a daemon of Slurm for itself"),
        ({"context": None}, ME, "was made by a daemon of Slurm for itself"),
        ({"ruid": BOB}, "", f"was made for the user {BOB}, and this service runs as"),
        (
            {"ruid": BOB, "uid": BOB},
            "",
            "was made for its own maker: .* `ssh -N -L ~/mirage.socket:/run/mirage/api.sock HOST`",
        ),
    ],
)
def test_a_credential_that_is_not_for_this_service_is_refused(
    sackd: FakeSackd, verifier: subject.SackVerifier, claims: dict[str, Any], user: str, why: str
) -> None:
    with pytest.raises(NotIdentified, match=f"^the SACK credential {why}") as refused:
        verifier.authenticate_caller(sackd.mint(PAYLOAD, **claims), PAYLOAD)
    assert refused.value.claimant == user


def test_the_reader_is_compared_though_the_daemon_lets_anybody_verify(
    sackd: FakeSackd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were a daemon less strict, the service would still be."""
    monkeypatch.setattr(FakeSackd, "is_good", lambda *_: True)
    for claims, why in (({"ruid": BOB}, "made for the user"), ({"exp": NOW - 1}, "has expired")):
        with pytest.raises(NotIdentified, match=why) as refused:
            build_verifier().authenticate_caller(sackd.mint(PAYLOAD, **claims), PAYLOAD)
        assert refused.value.claimant == ME


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (build_signed_text("POST", "/api/v1/chains", b"{ }", CLUSTER), "for another request"),
        (build_signed_text("GET", "/api/v1/chains", b"{}", CLUSTER), "for another request"),
        (build_signed_text("POST", "/api/v1/kill", b"{}", CLUSTER), "for another request"),
        (build_signed_text("POST", "/api/v1/chains", b"{}", "gpu2") + NONCE, r"service \(gpu2"),
        (PAYLOAD + NONCE + NONCE, "for another"),
        (PAYLOAD + " 0011", "for another"),
        ("", "for another request"),
    ],
)
def test_a_credential_is_good_for_its_own_request_alone(
    sackd: FakeSackd, verifier: subject.SackVerifier, text: str, why: str
) -> None:
    with pytest.raises(NotIdentified, match=why) as refused:
        verifier.authenticate_caller(sackd.mint(text), PAYLOAD)
    assert refused.value.claimant == ME


def test_a_payload_that_was_swapped_is_refused(
    sackd: FakeSackd, verifier: subject.SackVerifier
) -> None:
    head, content, signature = sackd.mint("something else").split(".")
    claims = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    claims["payload"] = base64.b64encode(PAYLOAD.encode()).decode()
    content = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(NotIdentified, match="is not valid here") as refused:
        verifier.authenticate_caller(f"{head}.{content}.{signature}", PAYLOAD)
    assert refused.value.claimant == "", "nobody vouches for the name in it"


def test_a_credential_of_another_key_is_refused(verifier: subject.SackVerifier) -> None:
    with (
        run_sackd(key=b"other" * 8) as elsewhere,
        pytest.raises(NotIdentified, match="is not valid here"),
    ):
        verifier.authenticate_caller(elsewhere.mint(PAYLOAD), PAYLOAD)


def test_a_credential_counts_once(sackd: FakeSackd, verifier: subject.SackVerifier) -> None:
    first, second = sackd.mint(PAYLOAD), sackd.mint(PAYLOAD + NONCE)
    for credential in (first, second):
        verifier.authenticate_caller(credential, PAYLOAD)
    for credential in (first, second):
        with pytest.raises(NotIdentified, match="was used before") as refused:
            verifier.authenticate_caller(credential, PAYLOAD)
        assert refused.value.claimant == ME


def test_a_second_spelling_of_a_signature_is_no_new_credential(
    sackd: FakeSackd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last letter of a signature has two bits that mean nothing, which a daemon may ignore."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    verifier, used = build_verifier(), sackd.mint(PAYLOAD)
    monkeypatch.setattr(FakeSackd, "is_good", lambda *_: True)
    verifier.authenticate_caller(used, PAYLOAD)
    respelled = used[:-1] + letters[letters.index(used[-1]) ^ 1]
    with pytest.raises(NotIdentified, match="was used before"):
        verifier.authenticate_caller(respelled, PAYLOAD)


def test_what_was_made_before_the_service_started_is_refused(sackd: FakeSackd) -> None:
    """The service before it may have taken it."""
    verifier = build_verifier(started_at=NOW)
    with pytest.raises(NotIdentified, match="is older than this service"):
        verifier.authenticate_caller(sackd.mint(PAYLOAD, iat=NOW - 1), PAYLOAD)
    verifier.authenticate_caller(sackd.mint(PAYLOAD, iat=NOW), PAYLOAD)


def test_a_credential_from_the_future_is_refused(sackd: FakeSackd) -> None:
    """It would be younger than a service that starts again, which has forgotten what was used."""
    credential = sackd.mint(PAYLOAD, iat=int(time.time()) + 3600)
    with pytest.raises(NotIdentified, match=r"was made 3\d{3} s from now: set the clocks"):
        build_verifier().authenticate_caller(credential, PAYLOAD)


def test_a_refused_credential_stays_good_for_its_own_request(
    sackd: FakeSackd, verifier: subject.SackVerifier
) -> None:
    credential = sackd.mint(PAYLOAD)
    with pytest.raises(NotIdentified, match="another request"):
        verifier.authenticate_caller(credential, "GET / 0 lab mirage")
    assert verifier.authenticate_caller(credential, PAYLOAD).user == ME


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "a.b",
        "a.b.c",
        "MUNGE:AAAA:",
        "; rm -rf /",
        "ä.ö.ü",
        "A" * 20000,
        "a.W10.c",
        "a.bnVsbA.c",
    ],
)
def test_what_is_no_credential_is_refused(verifier: subject.SackVerifier, credential: str) -> None:
    with pytest.raises(NotIdentified, match=r"none of Slurm's socket"):
        verifier.authenticate_caller(credential, PAYLOAD)


@pytest.mark.parametrize(
    "claims",
    [
        {"uid": -1},
        {"uid": True},
        {"uid": "0"},
        {"uid": ANYBODY},
        {"uid": None},
        {"exp": 1e300},
        {"exp": None},
        {"iat": None},
        {"cluster": 7},
        {"payload": "no base64!"},
        {"payload": ["x"]},
    ],
)
def test_claims_of_another_form_are_refused(
    sackd: FakeSackd, verifier: subject.SackVerifier, claims: dict[str, Any]
) -> None:
    with pytest.raises(NotIdentified, match=r"none of Slurm's socket"):
        verifier.authenticate_caller(sackd.mint(PAYLOAD, **claims), PAYLOAD)


@pytest.fixture(params=["silent", "absent"])
def away(request: pytest.FixtureRequest, sackd: FakeSackd, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(subject, "TIMEOUT_S", 0.2)
    if request.param == "silent":
        sackd.answers = False
        return r"gave no answer in 0\.2 s"
    monkeypatch.setenv("SLURM_SACK_SOCKET", "/nowhere/sack.socket")
    return "no daemon of Slurm listens on /nowhere/sack.socket"


def test_a_daemon_in_trouble_is_not_the_callers_fault(sackd: FakeSackd, away: str) -> None:
    with pytest.raises(ClusterUnavailable, match=away):
        build_verifier().authenticate_caller(sackd.mint(PAYLOAD), PAYLOAD)


@as_root
def test_the_service_asks_no_socket_of_a_user(sackd: FakeSackd) -> None:
    """He would vouch for anybody."""
    os.chown(sackd.path, BOB, -1)
    with pytest.raises(ClusterUnavailable, match=f"belongs to uid {BOB}"):
        build_verifier().authenticate_caller(sackd.mint(PAYLOAD, uid=0), PAYLOAD)
