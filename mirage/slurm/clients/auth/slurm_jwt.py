"""Slurm's JSON web tokens, as `scontrol token` or the site's issuer makes them.

https://slurm.schedmd.com/jwt.html. Reading them is joserfc's part.
"""

import json
import pwd
import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import structlog
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidKeyIdError, JoseError, SecurityWarning
from joserfc.jwk import KeySet, OctKey, RSAKey

from mirage.domain.callers.caller import Caller
from mirage.errors import ClusterUnavailable, ConfigError, NotIdentified

LONGEST = 8192
"""The most characters of a token."""

CLOCKS_DIFFER_S = 30
"""Seconds by which the clocks of the issuer and this host may differ."""

FETCH_AGAIN_S = 60.0
"""Seconds. When a token names an unknown key, keys are fetched again at most once in this time."""

_FETCH_TIMEOUT_S = 5.0
_LARGEST_SET = 256 * 1024
_log = structlog.get_logger(__name__)

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_USER_CLAIMS = ("sun", "username")

KeySource = Callable[[bool], OctKey | KeySet]
"""Returns the keys. Called with True, it fetches them again, since a token named an unknown key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJwt:
    """Reads tokens of one algorithm. The keys choose the algorithm, never the token."""

    keys: KeySource
    algorithm: str
    audience: str | None = None
    """The value that `aud` must hold; None: `aud` is not checked."""
    max_lifetime_s: int = 86400
    """Seconds. A token that is good for longer from now is refused."""
    clock: Callable[[], float] = time.time

    def authenticate_caller(self, token: str) -> Caller:
        """Return the caller whose token this is.

        Raises NotIdentified, or ClusterUnavailable if there are no keys. The token is good until it
        expires, and for any request.
        """
        if len(token) > LONGEST or not token.isascii():
            raise NotIdentified(
                "the credential is no JSON web token: make one with `scontrol token`"
            )
        try:
            claims = self._decode_claims(token)
        except (JoseError, ValueError, RecursionError) as error:
            raise NotIdentified(
                f"the JSON web token is refused: {_explain_error(error)}"
            ) from error
        user = _read_user(claims)
        try:
            self._build_registry().validate(claims)
        except ExpiredTokenError as error:
            raise NotIdentified("the JSON web token has expired", user) from error
        except (JoseError, ValueError, TypeError) as error:
            raise NotIdentified(
                f"the JSON web token is refused: {_explain_error(error)}", user
            ) from error
        if claims["exp"] > self.clock() + self.max_lifetime_s + CLOCKS_DIFFER_S:
            raise NotIdentified(
                f"the JSON web token is good for more than {self.max_lifetime_s} s: "
                "make one with a shorter lifespan",
                user,
            )
        return _build_caller(user)

    def _decode_claims(self, token: str) -> dict[str, Any]:
        try:
            decoded = jwt.decode(token, self.keys(False), algorithms=[self.algorithm])
        except InvalidKeyIdError:
            decoded = jwt.decode(token, self.keys(True), algorithms=[self.algorithm])
        return dict(decoded.claims)

    def _build_registry(self) -> jwt.JWTClaimsRegistry:
        requirements: dict[str, Any] = {"exp": {"essential": True}}
        if self.audience is not None:
            requirements["aud"] = {"essential": True, "value": self.audience}
        return jwt.JWTClaimsRegistry(
            now=lambda: int(self.clock()), leeway=CLOCKS_DIFFER_S, **requirements
        )


def load_hs256(key_file: Path, **options: Any) -> SlurmJwt:
    """Load a verifier that uses the site's own key (`jwt_hs256.key`).

    Raises ConfigError if the key cannot be used. Slurm takes the file's bytes as they are, even if
    they are the text of a PEM file.
    """
    try:
        raw = key_file.read_bytes()
    except OSError as error:
        raise ConfigError(str(key_file), [f"cannot be read: {error.strerror}"]) from error
    if key_file.stat().st_mode & 0o007:
        raise ConfigError(str(key_file), ["everybody may read the key: run `chmod o=` on it"])
    if len(raw) < 32:  # noqa: PLR2004 - RFC 7518 section 3.2
        raise ConfigError(str(key_file), ["the key has fewer than 32 bytes"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # joserfc warns of a private key's PEM
            key = OctKey.import_key(raw)
    except ValueError as error:
        raise ConfigError(
            str(key_file), ["the file holds a public key, which everybody has: name the secret key"]
        ) from error
    return SlurmJwt(keys=lambda _fetch_again: key, algorithm="HS256", **options)


def load_jwks_file(path: Path, **options: Any) -> SlurmJwt:
    """Load a verifier that uses the public keys of a file. Raises ConfigError.

    The file is read again when a token names another key.
    """

    def read_keys() -> KeySet:
        try:
            return _parse_key_set(path.read_bytes())
        except OSError as error:
            raise ClusterUnavailable(f"{path} cannot be read: {error.strerror}") from error

    try:
        read_keys()
    except (ClusterUnavailable, ValueError) as error:
        raise ConfigError(str(path), [str(error)]) from error
    return SlurmJwt(keys=_RefreshedKeys(read_keys), algorithm="RS256", **options)


def load_jwks_url(url: str, **options: Any) -> SlurmJwt:
    """Load a verifier that uses the public keys of an address.

    The address is asked at the first token, and again when a token names another key.
    """
    return SlurmJwt(
        keys=_RefreshedKeys(lambda: _parse_key_set(_fetch_url(url))), algorithm="RS256", **options
    )


class _RefreshedKeys:
    """Keys that may change. They are fetched again at most every FETCH_AGAIN_S."""

    def __init__(self, fetch: Callable[[], KeySet]) -> None:
        self._fetch = fetch
        self._keys: KeySet | None = None
        self._fetched_at: float | None = None
        self._lock = threading.Lock()

    def __call__(self, fetch_again: bool) -> KeySet:
        with self._lock:
            now = time.monotonic()
            is_due = self._fetched_at is None or now > self._fetched_at + FETCH_AGAIN_S
            if is_due and (fetch_again or self._keys is None):
                self._fetched_at = now
                self._keys = self._fetch_or_keep(self._keys)
        if self._keys is None:
            raise ClusterUnavailable("the keys of JSON web tokens cannot be had: see the log")
        return self._keys

    def _fetch_or_keep(self, old_keys: KeySet | None) -> KeySet | None:
        try:
            return self._fetch()
        except (ClusterUnavailable, ValueError) as error:
            _log.warning("no keys of JSON web tokens", error=str(error))
            if old_keys is None:
                raise ClusterUnavailable(f"no keys of JSON web tokens: {error}") from error
            return old_keys


def _parse_key_set(text: bytes) -> KeySet:
    """Parse a set of RSA public keys. Raises ValueError.

    Only RSA keys are taken: a symmetric key in a public set would be anybody's.
    """
    try:
        entries = json.loads(text)["keys"]
        keys: list[Any] = [
            RSAKey.import_key(entry) for entry in entries if entry.get("kty") == "RSA"
        ]
    except (JoseError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("that is no JSON web key set") from error
    if not keys:
        raise ValueError("the JSON web key set has no RSA key")
    return KeySet(keys)


def _fetch_url(url: str) -> bytes:
    try:
        with httpx.stream("GET", url, timeout=_FETCH_TIMEOUT_S, follow_redirects=False) as answer:
            answer.raise_for_status()
            body = b""
            for part in answer.iter_bytes():
                body += part
                if len(body) > _LARGEST_SET:
                    raise ValueError(f"{url} sends more than {_LARGEST_SET} bytes")
            return body
    except httpx.HTTPError as error:
        raise ClusterUnavailable(f"{url} gives no keys: {type(error).__name__}") from error


def _read_user(claims: dict[str, Any]) -> str:
    users = {claims[name] for name in _USER_CLAIMS if isinstance(claims.get(name), str)}
    if len(users) != 1:
        raise NotIdentified("the JSON web token names no user, or two")
    (user,) = users
    if not _USER.fullmatch(user):
        raise NotIdentified("the JSON web token names no user of this host")
    return str(user)


def _build_caller(user: str) -> Caller:
    try:
        return Caller(pwd.getpwnam(user).pw_uid, user, via="jwt")
    except KeyError:
        raise NotIdentified("the JSON web token names no user of this host", user) from None


def _explain_error(error: Exception) -> str:
    """Return joserfc's message, which shows only names of claims and algorithms of the token."""
    return str(getattr(error, "description", "") or getattr(error, "error", "") or "malformed")
