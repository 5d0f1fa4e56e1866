"""Calls the service over HTTP, with a credential if the service asks for one."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from mirage.cli.connection.transport import PREFIX, ServiceResponse, send_request
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


class ServiceClient:
    """A client of the service's REST API.

    Raises ServiceUnavailable if the service does not answer. Raises the other errors of
    `mirage.errors` by the answer's status, with the service's message.
    """

    def __init__(self, url: str, *, by_hand: str) -> None:
        self._url = url
        self._by_hand = by_hand
        """What the user can do without the service, in one sentence."""

    def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        query = {name: value for name, value in params.items() if value is not None}
        return self._request("GET", PREFIX + path, params=query)

    def iter_items(
        self, path: str, limit: int, **params: str | int | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a paged answer, page after page, up to `limit`."""
        page = self.get(path, limit=min(limit, 500), **params)
        while True:
            yield from page["items"][:limit]
            limit -= len(page["items"])
            if page["next"] is None or limit <= 0:
                return
            page = self._request("GET", page["next"])

    def post(self, path: str, new: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        body = b"" if new is None else json.dumps(dict(new)).encode()
        return self._request("POST", PREFIX + path, body=body)

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: bytes = b"",
    ) -> dict[str, Any]:
        target = f"{path}?{urlencode(params)}" if params else path
        answer = self._send(method, target, body, identified=method != "GET")
        # Reading needs a credential if the cluster keeps jobs private, or if this host's requests
        # without a credential have used up their quota.
        if method == "GET" and answer.status in {_UNIDENTIFIED, _TOO_MANY}:
            answer = self._send(method, target, body, identified=True)
        if answer.is_success:
            return self._parse_answer(answer)
        detail = self._parse_answer(answer).get("detail", f"it answered with HTTP {answer.status}")
        if answer.status >= _SERVER_ERROR:
            raise self._make_unavailable(detail)
        raise _ERRORS.get(answer.status, MirageError)(detail)

    def _send(self, method: str, target: str, body: bytes, *, identified: bool) -> ServiceResponse:
        try:
            return send_request(
                *(self._url, method, target, body), identified=identified, timeout_s=_TIMEOUT_S
            )
        except ServiceUnavailable as error:
            raise self._make_unavailable(str(error)) from error

    def _parse_answer(self, answer: ServiceResponse) -> dict[str, Any]:
        try:
            content = json.loads(answer.body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._make_unavailable(
                f"something else than Mirage answered with HTTP {answer.status}"
            )
        return content

    def _make_unavailable(self, reason: str) -> ServiceUnavailable:
        return ServiceUnavailable(
            f"no service at {self._url}: {reason}. "
            f"Chains continue in Slurm without the service; {self._by_hand}"
        )
