"""JSON web tokens: what joserfc makes and what an attacker would."""

import base64
import hashlib
import hmac
import json
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from mirage.domain.callers.caller import Caller
from mirage.errors import ClusterUnavailable, ConfigError, NotIdentified
from mirage.slurm.clients.auth import slurm_jwt

NOW = 1_800_000_000
SECRET = bytes(range(32))
ROOT = Caller(0, "root", via="jwt")
SOON = NOW + 1800


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def made(
    claims: object, *, secret: bytes = SECRET, header: object = None, hashed: str = "sha256"
) -> str:
    """As `scontrol token` does it, by hand: a token of any kind."""
    head = f"{part(header or {'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}"
    return f"{head}.{part(hmac.new(secret, head.encode(), hashed).digest())}"


def claims(**more: Any) -> dict[str, Any]:
    given = {"exp": SOON, "iat": NOW, "sun": "root"} | more
    return {name: value for name, value in given.items() if value is not None}


def key_file(folder: Path, raw: bytes = SECRET, mode: int = 0o640) -> Path:
    path = folder / "jwt_hs256.key"
    path.write_bytes(raw)
    path.chmod(mode)
    return path


@pytest.fixture
def slurm_keys(tmp_path: Path) -> slurm_jwt.SlurmJwt:
    return slurm_jwt.load_hs256(key_file(tmp_path), clock=lambda: NOW)


def refused(reader: slurm_jwt.SlurmJwt, token: str) -> NotIdentified:
    with pytest.raises(NotIdentified) as caught:
        reader.authenticate_caller(token)
    return caught.value


def test_slurms_token_names_its_user(slurm_keys: slurm_jwt.SlurmJwt) -> None:
    assert slurm_keys.authenticate_caller(made(claims())) == ROOT
    assert slurm_keys.authenticate_caller(made(claims(sun=None, username="root"))) == ROOT
    assert slurm_keys.authenticate_caller(made(claims(username="root"))) == ROOT


def test_a_key_that_is_the_text_of_a_pem_file_is_taken_as_it_is(tmp_path: Path) -> None:
    """Slurm's own documentation makes one by `openssl genrsa`."""
    pem = RSAKey.generate_key(2048).as_pem(private=True)
    reader = slurm_jwt.load_hs256(key_file(tmp_path, pem), clock=lambda: NOW)
    assert reader.authenticate_caller(made(claims(), secret=pem)) == ROOT


UNSIGNED = {
    "alg none": f"{part({'alg': 'none'})}.{part(claims())}.",
    "alg None": f"{part({'alg': 'None'})}.{part(claims())}.",
    "no signature": made(claims()).rpartition(".")[0] + ".",
    "no alg": made(claims(), header={"typ": "JWT"}),
    "other key": made(claims(), secret=b"x" * 32),
    "empty key": made(claims(), secret=b""),
    "HS384": made(claims(), header={"alg": "HS384"}, hashed="sha384"),
    "HS512": made(claims(), header={"alg": "HS512"}, hashed="sha512"),
    "jwk in its head": made(claims(), header={"alg": "RS256", "jwk": {"kty": "oct", "k": "AA"}}),
    "unknown crit": made(claims(), header={"alg": "HS256", "crit": ["exp"], "exp": 1}),
    "b64 false": made(claims(), header={"alg": "HS256", "b64": False, "crit": ["b64"]}),
    "changed": made(claims(sun="nobody")).rpartition(".")[0]
    + "."
    + made(claims()).rpartition(".")[2],
    "claims no object": made(["sun", "root"]),
    "claims no JSON": made(b"\xff\xfe"),
    "deep": made(b"[" * 4000),
    "two parts": "a.b",
    "five parts": "a.b.c.d.e",
    "empty": "",
    "points": "..",
    "not ASCII": "é.é.é",
    "endless": "a" * 9000,
}


@pytest.mark.parametrize("which", UNSIGNED)
def test_what_the_key_did_not_sign_is_refused(slurm_keys: slurm_jwt.SlurmJwt, which: str) -> None:
    error = refused(slurm_keys, UNSIGNED[which])
    assert error.claimant == "", "nothing of it is certain"


SIGNED = {
    "expired": (claims(exp=NOW - 31), "has expired", "root"),
    "no exp": (claims(exp=None), "exp", "root"),
    "exp no number": (claims(exp="soon"), "refused", "root"),
    "not yet": (claims(nbf=NOW + 300), "not yet valid", "root"),
    "from the future": (claims(iat=NOW + 300), "in the future", "root"),
    "endless": (claims(exp=2**33), "good for more than 86400 s", "root"),
    "no user": (claims(sun=None), "names no user, or two", ""),
    "two users": (claims(username="nobody"), "names no user, or two", ""),
    "user no text": (claims(sun=0), "names no user, or two", ""),
    "strange user": (claims(sun="root\n"), "no user of this host", ""),
    "unknown user": (claims(sun="nosuchuser"), "no user of this host", "nosuchuser"),
}


@pytest.mark.parametrize("which", SIGNED)
def test_what_is_signed_and_no_good_is_refused(slurm_keys: slurm_jwt.SlurmJwt, which: str) -> None:
    given, said, who = SIGNED[which]
    error = refused(slurm_keys, made(given))
    assert said in str(error)
    assert error.claimant == who


def test_the_audience_is_looked_at_where_one_is_set(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    reader = slurm_jwt.load_hs256(path, audience="mirage", clock=lambda: NOW)
    assert reader.authenticate_caller(made(claims(aud="mirage"))) == ROOT
    assert reader.authenticate_caller(made(claims(aud=["slurm", "mirage"]))) == ROOT
    for wrong in (claims(), claims(aud="slurm"), claims(aud=["mirage2"]), claims(aud="")):
        assert "aud" in str(refused(reader, made(wrong)))


@pytest.mark.parametrize(
    ("raw", "mode", "said"),
    [
        (SECRET, 0o644, "everybody may read the key"),
        (b"short", 0o600, "fewer than 32 bytes"),
    ],
)
def test_a_key_that_protects_nothing_is_refused(
    tmp_path: Path, raw: bytes, mode: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        slurm_jwt.load_hs256(key_file(tmp_path, raw, mode))


def test_a_public_key_is_no_site_key(tmp_path: Path, rsa: RSAKey) -> None:
    with pytest.raises(ConfigError, match="the file holds a public key"):
        slurm_jwt.load_hs256(key_file(tmp_path, rsa.as_pem(private=False)))


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        slurm_jwt.load_hs256(tmp_path / "nothing")


# Public keys.


@pytest.fixture(scope="module")
def rsa() -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": "first"})


def key_set(*keys: RSAKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def by_rsa(key: RSAKey, given: dict[str, Any], **header: str) -> str:
    return str(jwt.encode({"alg": "RS256", "kid": key.kid, **header}, given, key))


def test_public_keys_of_a_file(tmp_path: Path, rsa: RSAKey) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(rsa))
    reader = slurm_jwt.load_jwks_file(path, clock=lambda: NOW)
    assert reader.authenticate_caller(by_rsa(rsa, claims())) == ROOT
    stranger = RSAKey.generate_key(2048, parameters={"kid": "first"})
    refused(reader, by_rsa(stranger, claims()))
    assert refused(reader, by_rsa(rsa, claims(exp=NOW - 60))).claimant == "root"


def test_a_public_key_is_no_shared_secret(tmp_path: Path, rsa: RSAKey) -> None:
    """Algorithm confusion: HS256 over a text that everybody has."""
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(rsa))
    reader = slurm_jwt.load_jwks_file(path, clock=lambda: NOW)
    for public in (rsa.as_pem(private=False), path.read_bytes(), b""):
        for kid in ("first", None):
            head = {"alg": "HS256"} | ({"kid": kid} if kid else {})
            refused(reader, made(claims(), secret=public, header=head))


def test_a_shared_secret_in_a_public_set_is_left_out(tmp_path: Path, rsa: RSAKey) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        secret = OctKey.import_key(SECRET, {"kid": "second"}).as_dict()
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [secret, rsa.as_dict(private=False)]}))
    reader = slurm_jwt.load_jwks_file(path, clock=lambda: NOW)
    refused(reader, made(claims(), header={"alg": "HS256", "kid": "second"}))
    assert reader.authenticate_caller(by_rsa(rsa, claims())) == ROOT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": []}', '{"keys": [1]}', "[" * 9999])
def test_what_is_no_key_set(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        slurm_jwt.load_jwks_file(path)


class Issuer:
    """A site's issuer: an HTTP server with a key set."""

    def __init__(self) -> None:
        self.body = b""
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing: it is a test's."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made_one = Issuer()
    yield made_one
    made_one.close()


def test_public_keys_of_an_address_are_asked_for_seldom(issuer: Issuer, rsa: RSAKey) -> None:
    issuer.body = key_set(rsa)
    reader = slurm_jwt.load_jwks_url(issuer.url, clock=lambda: NOW)
    assert issuer.asked == 0
    for _ in range(3):
        assert reader.authenticate_caller(by_rsa(rsa, claims())) == ROOT
    for _ in range(3):
        refused(reader, by_rsa(rsa, claims(), kid="other"))
    assert issuer.asked == 1, "tokens that name no key of the set do not make us ask for ever"


def test_a_new_key_is_found(issuer: Issuer, rsa: RSAKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_jwt, "FETCH_AGAIN_S", 0.0)
    issuer.body = key_set(rsa)
    reader = slurm_jwt.load_jwks_url(issuer.url, clock=lambda: NOW)
    assert reader.authenticate_caller(by_rsa(rsa, claims())) == ROOT
    second = RSAKey.generate_key(2048, parameters={"kid": "second"})
    issuer.body = key_set(second)
    assert reader.authenticate_caller(by_rsa(second, claims())) == ROOT
    refused(reader, by_rsa(rsa, claims()))
    issuer.body = b"an error page"
    assert reader.authenticate_caller(by_rsa(second, claims())) == ROOT
    refused(reader, by_rsa(rsa, claims()))


def test_an_issuer_that_is_away_is_nobodys_fault(issuer: Issuer, rsa: RSAKey) -> None:
    reader = slurm_jwt.load_jwks_url("http://127.0.0.1:9/jwks", clock=lambda: NOW)
    with pytest.raises(ClusterUnavailable, match="gives no keys"):
        reader.authenticate_caller(by_rsa(rsa, claims()))
    with pytest.raises(ClusterUnavailable, match="cannot be had"):
        reader.authenticate_caller(by_rsa(rsa, claims()))
    issuer.body = b" " * 300_000
    large = slurm_jwt.load_jwks_url(issuer.url, clock=lambda: NOW)
    with pytest.raises(ClusterUnavailable):
        large.authenticate_caller(by_rsa(rsa, claims()))


def test_the_refusal_holds_nothing_of_the_token(slurm_keys: slurm_jwt.SlurmJwt) -> None:
    for token in (*UNSIGNED.values(), *(made(given) for given, _, _ in SIGNED.values())):
        said = str(refused(slurm_keys, token))
        assert not any(len(word) > 12 and word in said for word in token.split("."))
        assert hashlib.sha256(SECRET).hexdigest() not in said
