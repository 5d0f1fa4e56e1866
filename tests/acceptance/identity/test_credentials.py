"""Credentials of a real munged and a real slurmctld: good ones, and each that is not."""

import base64
import hmac
import json
import pwd
import time
from pathlib import Path

import pytest

from mirage.domain.callers.request_signing import build_signed_text
from tests.support.identity.site import KEY, Site
from tests.support.slurm_testbed import has_auth_slurm

pytestmark = pytest.mark.slurm

LIST = "/chains"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def made(claims: dict[str, object], *, alg: str = "HS256", secret: bytes | None = None) -> str:
    head = f"{part({'alg': alg, 'typ': 'JWT'})}.{part(claims)}"
    key = KEY.read_bytes() if secret is None else secret
    signature = hmac.new(key, head.encode(), "sha256").digest()
    tail = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return f"{head}.{'' if alg == 'none' else tail}"


def last_refusal(site: Site) -> tuple[str, str, str]:
    """(event, actor, why)"""
    entry = site.audit()[-1]
    return entry["event"], entry["actor"], json.loads(entry["detail"])["why"]


def test_slurms_own_token_is_believed(site: Site) -> None:
    for user in ("alice", "bob"):
        assert site.ask("GET", LIST, site.token(user, "lifespan=60")).status_code == 200


def test_tokens_that_are_no_good_are_refused_and_audited(site: Site) -> None:
    now = int(time.time())
    claims: dict[str, object] = {"exp": now + 600, "iat": now, "sun": "mirage"}
    head, body, tail = site.token("alice", "lifespan=60").split(".")
    forged = part(json.loads(base64.urlsafe_b64decode(body + "==")) | {"sun": "mirage"})
    cases = {
        made(claims, alg="none"): ("nobody", "not allowed"),
        made(claims, secret=b"guess" * 8): ("nobody", "bad_signature"),
        f"{head}.{forged}.{tail}": ("nobody", "bad_signature"),
        made(claims | {"exp": now - 60}): ("mirage", "has expired"),
        made({"iat": now, "sun": "mirage"}): ("mirage", "exp"),
        site.token("alice", "lifespan=604800"): ("alice", "good for more than"),
        made(claims | {"sun": "nosuchuser"}): ("nosuchuser", "no user of this host"),
    }
    for token, (actor, why) in cases.items():
        assert site.ask("GET", LIST, token).status_code == 401
        event, who, told = last_refusal(site)
        assert (event, who) == ("refused: not identified", actor)
        assert why in told
    kept = json.dumps(site.audit()) + site.log()
    assert not any(token in kept or token.split(".")[1] in kept for token in cases)


@pytest.mark.parametrize("site", ["munge"], indirect=True)
def test_munge_vouches_once_for_one_request_and_not_for_ever(site: Site) -> None:
    good = site.munge("alice", "GET", LIST)
    short = site.munge("alice", "GET", LIST, ttl=1)
    assert site.send("GET", LIST, good).status_code == 200
    assert site.send("GET", LIST, good).status_code == 401
    assert last_refusal(site) == (
        "refused: not identified",
        "alice",
        "the MUNGE credential was used before",
    )
    for method, path in (("GET", f"{LIST}?limit=1"), ("POST", "/kill"), ("GET", "/audit")):
        other = site.munge("alice", "GET", LIST)
        assert site.send(method, path, other).status_code == 401
        assert last_refusal(site)[1:] == (
            "alice",
            "the MUNGE credential was made for another request",
        )
    # Munged counts whole seconds, and takes one that is spent for good until the next has begun.
    site.testbed.wait_until(
        lambda: is_expired(site, short),
        10,
        "the credential to expire",
    )
    assert site.send("GET", LIST, short).status_code == 401
    assert last_refusal(site)[1:] == ("alice", "the MUNGE credential has expired")
    assert good.split()[1] not in json.dumps(site.audit()) + site.log()


def is_expired(site: Site, credential: str) -> bool:
    text = credential.removeprefix("MUNGE ")
    return site.testbed.run(["unmunge"], input=text, check=False).returncode == 15


SLURM_KEY = Path("/etc/slurm/slurm.key")
with_auth_slurm = pytest.mark.skipif(not has_auth_slurm(), reason="this Slurm has no auth/slurm")


@with_auth_slurm
@pytest.mark.parametrize("site", ["slurm"], indirect=True)
def test_slurms_own_socket_vouches_once_for_one_request(site: Site) -> None:
    good = site.sack("alice", "GET", LIST)
    assert site.send("GET", LIST, good).status_code == 200
    for method, path, credential, why in (
        ("GET", LIST, good, "was used before"),
        ("GET", f"{LIST}?limit=1", site.sack("alice", "GET", LIST), "was made for another request"),
        ("POST", "/kill", site.sack("alice", "GET", LIST), "was made for another request"),
        (
            *("GET", LIST, site.sack("alice", "GET", LIST, socket=SLURMDBD_SOCKET)),
            "names no cluster: slurmdbd's socket made it, use that of sackd or slurmd",
        ),
    ):
        assert site.send(method, path, credential).status_code == 401
        assert last_refusal(site) == (
            "refused: not identified",
            "alice",
            f"the SACK credential {why}",
        )
    assert good.split()[1] not in json.dumps(site.audit()) + site.log()


SLURMDBD_SOCKET = "/run/slurmdbd/sack.socket"


@with_auth_slurm
@pytest.mark.parametrize("site", ["slurm"], indirect=True)
def test_credentials_that_a_real_daemon_verifies_are_refused_if_they_are_not_for_us(
    site: Site,
) -> None:
    """Each is signed with the cluster's key; the daemon itself refuses the last four."""
    now, mirage = int(time.time()), pwd.getpwnam("mirage").pw_uid
    text = build_signed_text("GET", f"/api/v1{LIST}", b"", "testbed")
    claims: dict[str, object] = {
        "iat": now,
        "exp": now + 60,
        "ver": 10752,
        "ruid": mirage,
        "context": "sack",
        "cluster": "testbed",
        "uid": pwd.getpwnam("alice").pw_uid,
        "gid": 0,
        "host": "vm",
        "payload": base64.b64encode(text.encode()).decode(),
    }
    key = SLURM_KEY.read_bytes()
    swapped = base64.b64encode(b"GET /api/v1/audit 0 testbed mirage").decode()
    head, _, tail = made(claims, secret=key).split(".")
    cases = {
        made(claims | {"cluster": "gpu2"}, secret=key): ("alice", "on another cluster"),
        made(claims | {"context": "auth"}, secret=key): ("alice", "by a daemon of Slurm"),
        made(claims | {"payload": swapped}, secret=key): ("alice", "for another request"),
        made(claims | {"exp": now - 1}, secret=key): ("nobody", "has expired"),
        made(claims | {"ruid": 0}, secret=key): ("nobody", "was made for the user 0"),
        made(claims, secret=b"guess" * 8): ("nobody", "is not valid here"),
        f"{head}.{part(claims | {'uid': mirage})}.{tail}": ("nobody", "is not valid here"),
    }
    for token, (actor, why) in cases.items():
        assert site.send("GET", LIST, f"SACK {token}").status_code == 401
        event, who, told = last_refusal(site)
        assert (event, who) == ("refused: not identified", actor)
        assert why in told
    anybody = made(claims | {"ruid": 0xFFFFFFFF}, secret=key)
    assert site.send("GET", LIST, f"SACK {anybody}").status_code == 200


def test_the_wrapped_sbatch_is_vouched_for_by_what_slurm_uses(
    site: Site, chains: dict[str, str]
) -> None:
    via = {"munge": "munge", "slurm": "sack"}[site.settings.auth]
    for user, chain_id in chains.items():
        rows = [row for row in site.audit() if row["chain_id"] == chain_id]
        assert via in {json.loads(row["detail"]).get("via") for row in rows if row["actor"] == user}


def test_a_token_of_mirages_own(site: Site) -> None:
    done = site.mirage("token", "create", "grafana", "--role", "viewer", user="mirage")
    text = done.stdout.strip()
    assert site.ask("GET", "/cluster", text).status_code == 200
    assert site.ask("GET", LIST, text).json()["items"] == [], "what is private stays so"
    assert site.ask("PUT", "/mode", text, b'{"mode": "act"}').status_code == 403
    token_id = text.split("_")[1]
    listed = site.mirage("token", "list", user="mirage").stdout
    assert token_id in listed
    assert text not in listed
    site.mirage("token", "revoke", token_id, user="mirage")
    assert site.ask("GET", "/cluster", text).status_code == 401
    assert last_refusal(site) == (
        "refused: not identified",
        f"token {token_id}",
        "the token was revoked",
    )
    # Users have no part in it: the database is the service's.
    done = site.mirage(
        *("token", "create", "mine", "--role", "admin"),
        user="alice",
        check=False,
        MIRAGE_CONFIG=str(site.root / "mirage" / "mirage.toml"),
    )
    assert done.returncode != 0
