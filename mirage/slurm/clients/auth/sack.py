"""Reads credentials of Slurm's own socket (SACK), which takes MUNGE's place under auth/slurm.

Slurm's daemon on this host vouches for a credential, but tells nothing of its content and takes
the same credential again. So the content is read and compared here, and each credential counts
once. The socket itself is asked by slurm_plugin/mirage_slurm/client/sack.py, as clients do.
"""

import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from mirage.domain.callers.caller import Caller, ClaimUse
from mirage.domain.callers.request_signing import explain_difference
from mirage.errors import NotIdentified
from mirage.slurm.clients.host_accounts import build_caller, format_user_name

LONGEST = 16384
"""The most characters of a credential. With `use_client_ids` it holds the user's groups."""

MAX_LIFETIME_S = 3600
"""Seconds. A credential that is good for longer from now is refused: each is remembered until it
expires. Slurm gives 60 s, or `ttl` of AuthInfo."""

MOST_AHEAD_S = 5
"""Seconds by which the clock of the maker's host may be ahead. A credential from the future would
outlive a restart of the service, which forgets what was used."""

TIMEOUT_S = 5.0
"""How long Slurm's daemon may take to answer."""

_ADVICE_FOR_TUNNELS = (
    "a tunnel such as `ssh -L 6480:...` ends in a process of the user. Tunnel the service's "
    "socket: run `ssh -N -L ~/mirage.socket:/run/mirage/api.sock HOST`, and set "
    "MIRAGE_URL=unix://$HOME/mirage.socket"
)

ANYBODY = 0xFFFFFFFF
"""The uid `ruid` of a credential that any user may verify (SLURM_AUTH_UID_ANY)."""

_LAST_INSTANT = 1 << 53
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_CONTEXT = "sack"
_NONCE = re.compile(r" [0-9a-f]{16}\Z")
"""May follow the text of the request, so that two credentials of one second differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    """The content of a credential. Nothing is believed of it before the daemon has vouched."""

    uid: int
    reader_uid: int
    context: str
    cluster: str
    """Empty in a credential of slurmdbd's socket."""
    issued_at: int
    expires_at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SackVerifier:
    """Identifies the maker of a credential of Slurm's socket."""

    vouch: Callable[[str], bool]
    """Asks Slurm's daemon on this host whether the credential is genuine and not expired. Raises
    ClusterUnavailable."""
    claim_use: ClaimUse
    cluster: str
    """The name of the service's cluster, in upper or lower case."""
    uid: int
    """The uid of this process."""
    started_at: int = 0
    """When the service started, in epoch seconds. It does not know what was used before."""
    clock: Callable[[], float] = time.time

    def authenticate_caller(self, credential: str, payload: str) -> Caller:
        """Return the user who made the credential for the request of this `payload`.

        Raises NotIdentified; TooMany for a user with too many credentials at once; and
        ClusterUnavailable if no daemon of Slurm answers on this host.
        """
        claims = _parse_claims(credential)
        if not self.vouch(credential):
            raise NotIdentified(f"the SACK credential {self._explain_refusal(claims)}")
        user = format_user_name(claims.uid)
        if fault := self._find_fault(claims, payload):
            raise NotIdentified(f"the SACK credential {fault}", user)
        caller = build_caller(claims.uid, via="sack")
        if not self.claim_use(caller, _hash_signed_part(credential), claims.expires_at):
            raise NotIdentified("the SACK credential was used before", user)
        return caller

    def _explain_refusal(self, claims: _Claims) -> str:
        """Say why the daemon may have refused it; it does not say so itself."""
        if claims.expires_at < int(self.clock()):
            return "has expired"
        return self._find_other_reader(claims) or "is not valid here"

    def _find_fault(self, claims: _Claims, payload: str) -> str:
        """Return what is wrong with a credential for which the daemon vouches; "": nothing."""
        text = _NONCE.sub("", claims.text)
        return (
            self._find_other_origin(claims)
            or self._find_other_reader(claims)
            or self._find_other_time(claims)
            or ("" if text == payload else explain_difference(text, payload))
        )

    def _find_other_origin(self, claims: _Claims) -> str:
        if claims.context != _CONTEXT:
            return "was made by a daemon of Slurm for itself"
        if not claims.cluster:
            return "names no cluster: slurmdbd's socket made it, use that of sackd or slurmd"
        if claims.cluster.lower() != self.cluster.lower():
            return "was made on another cluster"
        return ""

    def _find_other_time(self, claims: _Claims) -> str:
        now = int(self.clock())
        if claims.expires_at < now:
            return "has expired"
        if claims.expires_at > now + MAX_LIFETIME_S:
            return f"is good for more than {MAX_LIFETIME_S} s: see `ttl` in AuthInfo of slurm.conf"
        if claims.issued_at > now + MOST_AHEAD_S:
            ahead_s = claims.issued_at - now
            return f"was made {ahead_s} s from now: set the clocks of its host and of this one"
        if claims.issued_at < self.started_at:
            return "is older than this service, which may have taken it before: make a new one"
        return ""

    def _find_other_reader(self, claims: _Claims) -> str:
        if claims.reader_uid in (self.uid, ANYBODY):
            return ""
        if claims.reader_uid == claims.uid:  # who listened on the client's side of a tunnel
            return f"was made for its own maker: {_ADVICE_FOR_TUNNELS}"
        return (
            f"was made for the user {claims.reader_uid}, and this service runs as {self.uid}: set "
            f"`account = {self.uid}` in /etc/mirage/client.conf"
        )


def _hash_signed_part(credential: str) -> str:
    """Hash what is signed. The signature has a second spelling, and so is no part of it."""
    return hashlib.sha256(credential.rpartition(".")[0].encode()).hexdigest()


def _parse_claims(credential: str) -> _Claims:
    """Read the content. Raises NotIdentified for what is no credential."""
    if len(credential) > LONGEST or not _TOKEN.fullmatch(credential):
        _refuse_form()
    try:
        content = json.loads(_decode(credential.split(".")[1]))
        return _Claims(
            uid=_get_number(content, "uid", ANYBODY - 1),
            reader_uid=_get_number(content, "ruid", ANYBODY),
            context=_get_text(content, "context"),
            cluster=_get_text(content, "cluster"),
            issued_at=_get_number(content, "iat"),
            expires_at=_get_number(content, "exp"),
            text=_decode(_get_text(content, "payload")).decode(),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        _refuse_form()


def _refuse_form() -> NoReturn:
    raise NotIdentified("the credential is none of Slurm's socket (SACK)")


def _decode(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding. Raises ValueError."""
    try:
        plain = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _get_number(content: Any, name: str, most: int = _LAST_INSTANT) -> int:
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(name)
    return value


def _get_text(content: Any, name: str) -> str:
    value = content.get(name, "")
    if not isinstance(value, str):
        raise TypeError(name)
    return value
