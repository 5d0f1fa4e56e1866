"""The service as the command line reaches it: HTTP, and a credential where one is asked for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from mirage.cli.address import PREFIX, UNIX, credential
from mirage.errors import (
    IllegalTransition,
    InputError,
    MirageError,
    NotAllowed,
    NotIdentified,
    ServiceUnavailable,
    TooMany,
)

_TIMEOUT_S = 10.0
_UNIDENTIFIED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500
_ERRORS: dict[int, type[MirageError]] = {
    401: NotIdentified,
    403: NotAllowed,
    404: InputError,
    409: IllegalTransition,
    422: InputError,
    429: TooMany,
}


class Service:
    """Raises ServiceUnavailable when there is no answer, and what the service said of an error."""

    def __init__(self, url: str, *, by_hand: str) -> None:
        self._url = url
        self._by_hand = by_hand
        """What to do without the service, in one sentence."""

    def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        asked = {name: value for name, value in params.items() if value is not None}
        return self._answer("GET", PREFIX + path, params=asked)

    def items(self, path: str, limit: int, **params: str | int | None) -> Iterator[dict[str, Any]]:
        """Rows of a paged answer, page after page, up to `limit`."""
        page = self.get(path, limit=min(limit, 500), **params)
        while True:
            yield from page["items"][:limit]
            limit -= len(page["items"])
            if page["next"] is None or limit <= 0:
                return
            page = self._answer("GET", page["next"])

    def post(self, path: str, new: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        body = b"" if new is None else json.dumps(dict(new)).encode()
        return self._answer("POST", PREFIX + path, body=body)

    def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: bytes = b"",
    ) -> dict[str, Any]:
        target = str(httpx.URL(path).copy_merge_params(params)) if params else path
        answer = self._ask(method, target, body, identified=method != "GET")
        # Reading needs a name only where the cluster keeps jobs private, or where all of this host
        # who give none have together had their share.
        if method == "GET" and answer.status_code in {_UNIDENTIFIED, _TOO_MANY}:
            answer = self._ask(method, target, body, identified=True)
        if answer.is_success:
            return self._read(answer)
        detail = self._read(answer).get("detail", f"the answer was {answer.status_code}")
        if answer.status_code >= _SERVER_ERROR:
            raise self._unavailable(detail)
        raise _ERRORS.get(answer.status_code, MirageError)(detail)

    def _ask(self, method: str, target: str, body: bytes, *, identified: bool) -> httpx.Response:
        socket_path = self._url.removeprefix(UNIX) if self._url.startswith(UNIX) else None
        base = "http://mirage" if socket_path else self._url
        headers = {"Content-Type": "application/json"} if body else {}
        if identified and not socket_path:
            headers |= credential(method, target, body)
        try:
            # Proxies of the environment are for elsewhere; the wrapped sbatch uses none either.
            with httpx.Client(
                timeout=_TIMEOUT_S,
                trust_env=False,
                transport=httpx.HTTPTransport(uds=socket_path, trust_env=False),
            ) as http:
                return http.request(method, base + target, headers=headers, content=body)
        except httpx.HTTPError as error:
            raise self._unavailable(str(error) or type(error).__name__) from error

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
