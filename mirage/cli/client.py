"""The service as the command line reaches it: HTTP, and a MUNGE credential for each write."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from mirage.cluster import munge
from mirage.errors import (
    IllegalTransition,
    InputError,
    MirageError,
    NotAllowed,
    NotIdentified,
    ServiceUnavailable,
)
from mirage.settings import DEFAULT_PORT

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
CLIENT_CONFIG = "/etc/mirage/client.conf"
"""Shared with the wrapped sbatch (slurm_plugin/README.md): a line `url = ...`."""

_PREFIX = "/api/v1"
_TIMEOUT_S = 10.0
_SERVER_ERROR = 500
_ERRORS: dict[int, type[MirageError]] = {
    401: NotIdentified,
    403: NotAllowed,
    404: InputError,
    409: IllegalTransition,
    422: InputError,
}


def service_url(given: str | None) -> str:
    """What was given, MIRAGE_URL, the client's configuration file, or this host."""
    chosen = given or os.environ.get("MIRAGE_URL") or _configured() or DEFAULT_URL
    if not chosen.startswith(("http://", "https://")):
        raise InputError(f"the service's URL {chosen!r} is no http address")
    return chosen.rstrip("/")


def _configured() -> str | None:
    path = Path(os.environ.get("MIRAGE_CLIENT_CONF") or CLIENT_CONFIG)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return next((v.strip().strip("\"'") for k, eq, v in pairs if eq and k.strip() == "url"), None)


class Service:
    """Raises ServiceUnavailable when there is no answer, and what the service said of an error."""

    def __init__(self, url: str, *, by_hand: str) -> None:
        self._url = url
        self._by_hand = by_hand
        """What to do without the service, in one sentence."""

    def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        asked = {name: value for name, value in params.items() if value is not None}
        return self._answer("GET", _PREFIX + path, params=asked)

    def items(self, path: str, limit: int, **params: str | int | None) -> Iterator[dict[str, Any]]:
        """Rows of a paged answer, page after page, up to `limit`."""
        page = self.get(path, limit=min(limit, 500), **params)
        while True:
            yield from page["items"][:limit]
            limit -= len(page["items"])
            if page["next"] is None or limit <= 0:
                return
            page = self._answer("GET", page["next"])

    def post(self, path: str) -> dict[str, Any]:
        signed = f"POST {_PREFIX}{path} {hashlib.sha256(b'').hexdigest()}"
        headers = {"Authorization": f"MUNGE {munge.credential(signed)}"}
        return self._answer("POST", _PREFIX + path, headers=headers)

    def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        try:
            # Proxies of the environment are for elsewhere; the wrapped sbatch uses none either.
            with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as http:
                answer = http.request(method, self._url + path, params=params, headers=headers)
        except httpx.HTTPError as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        if answer.is_success:
            return self._read(answer)
        detail = self._read(answer).get("detail", f"the answer was {answer.status_code}")
        if answer.status_code >= _SERVER_ERROR:
            raise self._unavailable(detail)
        raise _ERRORS.get(answer.status_code, MirageError)(detail)

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._unavailable(f"the answer was {answer.status_code}, and not Mirage's")
        return found

    def _unavailable(self, why: str) -> ServiceUnavailable:
        return ServiceUnavailable(
            f"no service at {self._url}: {why}. "
            f"Slurm keeps the chains all the same; {self._by_hand}"
        )
