"""The service's own JSON Web Token for slurmrestd, from a file.

Nothing is verified here: slurmctld does that. The token's claims are read to tell an expired token
from a bad one. slurmrestd of 22.05.8 does not tell them apart: it answers 500 to both.
"""

import base64
import binascii
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.host_accounts import is_private

_TOKEN = re.compile(r"(?:SLURM_JWT=)?(?P<token>[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_LARGEST = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class RestToken:
    """A token, and the user as whom it identifies the caller to slurmrestd."""

    text: str = field(repr=False)
    user: str
    expires: int | None
    """When the token expires, in epoch seconds; None: not stated."""

    def build_headers(self) -> dict[str, str]:
        return {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.text}


def parse_token(text: str, *, user: str = "") -> RestToken:
    """Parse the token in a file or an answer, alone or as `scontrol token` prints it.

    Raises ValueError, whose message shows nothing of the token. `user` takes precedence over the
    token's own claim.
    """
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise ValueError("holds no JSON Web Token")
    claims = _parse_claims(match["token"])
    name = user or claims.get("sun") or claims.get("username") or ""
    expires = claims.get("exp")
    if not isinstance(name, str) or _USER.fullmatch(name) is None:
        raise ValueError("names no user: set cluster.rest_user")
    return RestToken(
        text=match["token"],
        user=name,
        expires=int(expires) if isinstance(expires, int | float) else None,
    )


def _parse_claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        raise ValueError("holds a token whose claims do not read") from None
    return claims if isinstance(claims, dict) else {}


class TokenFile:
    """The service's own token. The file is read at each request, so renewing it means writing the
    file."""

    def __init__(
        self, path: Path, *, user: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._user = user
        self._clock = clock

    def load_token(self) -> RestToken:
        """Return the token. Raises ClusterUnavailable if the file holds no valid token."""
        try:
            token = parse_token(_read_private_text(self.path), user=self._user)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if isinstance(error, UnicodeError):
                reason = "holds no JSON Web Token"
            raise ClusterUnavailable(
                f"cluster.rest_token_file {self.path}: {reason} (`scontrol token` makes one)"
            ) from None
        if token.expires is not None and token.expires <= self._clock():
            raise ClusterUnavailable(
                f"cluster.rest_token_file {self.path}: its token has expired: renew it"
            )
        return token


def _read_private_text(path: Path) -> str:
    """Return the text of a file that nobody else may read; raise ValueError if others may."""
    with path.open(encoding="ascii") as file:
        if not is_private(os.fstat(file.fileno())):
            raise ValueError("others may read it: `chmod 600` it")
        return file.read(_LARGEST)
