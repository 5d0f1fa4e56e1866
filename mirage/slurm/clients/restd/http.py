"""HTTP to one slurmrestd, over a unix socket or TCP: returns JSON, or raises a sentence on why not.

Each request has a connection of its own, since an old slurmrestd is restarted often. Each request
also has one deadline for all of its answer. A time-out for each read would not do: a slurmrestd
that sends a byte now and then would hold the reader for ever.
"""

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

import structlog

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.call_stats import CallStats, CallTotals
from mirage.slurm.clients.restd.token import RestToken

_log = structlog.get_logger(__name__)

UNIX = "unix:"
_LARGEST_ANSWER = 1 << 30
"""The most bytes of an answer. A longer answer is an error."""
_CHUNK_BYTES = 1 << 16
Query = Mapping[str, str] | Sequence[tuple[str, str]]
"""Parameters of a request. A sequence may hold a parameter several times."""
_FIRST_REST_ERROR = 9000
_UNKNOWN_CALLER_STATUSES = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED}
)
"""Statuses for an unknown caller, whatever errors of Slurm come with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A JSON reply. A refusal has a status of 400 or more, or `errors`."""

    status: int
    body: Any


class PathNotServed(ClusterUnavailable):
    """HTTP 404: slurmrestd does not serve this path, or no longer serves it."""


class RestHttp:
    """Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 15.0,
        identity: Callable[[], RestToken] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url` is `unix:/path`, `http://host:port` or `https://...`. `identity` gives the token of
        each request; None: slurmrestd identifies its caller by the socket (rest_auth/local)."""
        self.url = url
        self._socket = url.removeprefix(UNIX) if url.startswith(UNIX) else None
        self._base = "" if self._socket is not None else urlsplit(url).path.rstrip("/")
        self._timeout_s = timeout_s
        self._identity = identity
        self._clock = clock
        self.meter = CallStats()

    def get_usage(self) -> Mapping[str, CallTotals]:
        """Return the calls' totals by kind of request: `rest:jobs` and the like."""
        return self.meter.get_usage()

    def get_user(self) -> str:
        """Return the user whose token goes with each request; empty if no token goes.

        Raises ClusterUnavailable.
        """
        return "" if self._identity is None else self._identity().user

    def get(self, path: str, kind: str, query: Query = ()) -> Reply:
        return self._send_request("GET", path, kind, query=query)

    def post(self, path: str, kind: str, body: Any) -> Reply:
        return self._send_request("POST", path, kind, body=body)

    def delete(self, path: str, kind: str) -> Reply:
        return self._send_request("DELETE", path, kind)

    def _send_request(
        self, method: str, path: str, kind: str, *, query: Query = (), body: Any = None
    ) -> Reply:
        with self.meter.count_call(f"rest:{kind}"):
            token = None if self._identity is None else self._identity()
            headers = {"Accept": "application/json"} | (
                {} if token is None else token.build_headers()
            )
            if body is not None:
                headers["Content-Type"] = "application/json"
            raw_body = None if body is None else json.dumps(body).encode()
            target = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
            try:
                status, raw = self._send_with_retry(method, target, headers, raw_body)
            except TimeoutError as error:
                raise self._build_timeout_error() from error
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
                raise ClusterUnavailable(
                    f"slurmrestd at {self.url} broke its answer off: {reason}"
                ) from error
            return self._parse_reply(path, status, raw)

    def _send_with_retry(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        """Send a request. slurmrestd 22.05 sometimes drops a connection: a query is then repeated
        once, in the time that is left. A move is not repeated, as it may have been made."""
        deadline = self._clock() + self._timeout_s
        try:
            return self._send_once(method, target, headers, body, deadline)
        except ConnectionResetError:
            if method != "GET":
                raise
            _log.info("slurmrestd dropped a connection; asked once more", url=self.url)
            return self._send_once(method, target, headers, body, deadline)

    def _send_once(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: float,
    ) -> tuple[int, bytes]:
        left_s = deadline - self._clock()
        if left_s <= 0:
            raise TimeoutError
        connection = self._create_connection(left_s)
        try:
            self._open_connection(connection)
            connection.request(method, target, body=body, headers=dict(headers))
            # `getresponse` takes the socket away from the connection; it is needed to set the
            # time-out of each read.
            sock = connection.sock
            answer = connection.getresponse()
            with answer:
                return answer.status, self._read_content(answer, sock, deadline)
        finally:
            connection.close()

    def _read_content(
        self, answer: http.client.HTTPResponse, sock: socket.socket, deadline: float
    ) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            left_s = deadline - self._clock()
            if left_s <= 0:
                raise TimeoutError
            if not answer.isclosed():
                sock.settimeout(left_s)
            part = answer.read1(_CHUNK_BYTES)
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > _LARGEST_ANSWER:
                raise ClusterUnavailable(f"slurmrestd at {self.url} does not end its answer")
        if answer.length:
            raise http.client.IncompleteRead(b"", answer.length)
        return b"".join(parts)

    def _open_connection(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except OSError as error:
            raise ClusterUnavailable(
                f"slurmrestd does not listen at {self.url} ({error}): start it, or set "
                "cluster.rest_url"
            ) from error

    def _create_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._socket is not None:
            return _UnixConnection(self._socket, timeout=timeout_s)
        url = urlsplit(self.url)
        host, port = url.hostname or "", url.port
        if url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout_s)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _build_timeout_error(self) -> ClusterUnavailable:
        return ClusterUnavailable(
            f"slurmrestd at {self.url} did not answer within {self._timeout_s:g} s"
        )

    def _parse_reply(self, path: str, status: int, raw: bytes) -> Reply:
        body = _parse_json(raw)
        sentence = _STATUS_SENTENCES.get(status)
        # From 24.11 on an error of Slurm's own, such as an unknown job, has a status of 400 or
        # more too. It is no fault of slurmrestd, so it is returned.
        if sentence is not None and (
            status in _UNKNOWN_CALLER_STATUSES or not _is_slurm_error(body)
        ):
            error = PathNotServed if status == HTTPStatus.NOT_FOUND else ClusterUnavailable
            raise error(f"slurmrestd at {self.url}: {sentence} (HTTP {status}, {path})")
        if body is None:
            excerpt = raw[:80].decode(errors="replace")
            raise ClusterUnavailable(
                f"slurmrestd at {self.url}: HTTP {status} without JSON: {excerpt!r}"
            )
        return Reply(status=status, body=body)


def _parse_json(raw: bytes) -> Any:
    """Parse JSON; None: the bytes are no JSON."""
    try:
        # Users may write bytes into comments that are not UTF-8, and slurmrestd sends them as they
        # are.
        return json.loads(raw.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _is_slurm_error(body: Any) -> bool:
    """Return whether the error is Slurm's own; slurmrestd's own errors begin at 9000."""
    errors = body.get("errors") if isinstance(body, dict) else None
    numbers = [e.get("error_number") for e in errors or () if isinstance(e, dict)]
    return any(isinstance(n, int) and 0 < n < _FIRST_REST_ERROR for n in numbers)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            unix_socket.settimeout(self.timeout)
            unix_socket.connect(self._path)
        except BaseException:
            unix_socket.close()
            raise
        self.sock = unix_socket


_STATUS_SENTENCES = {
    301: "it redirects: set cluster.rest_url to that",
    302: "it redirects: set cluster.rest_url to that",
    307: "it redirects: set cluster.rest_url to that",
    308: "it redirects: set cluster.rest_url to that",
    401: "it does not know the caller: set cluster.rest_token_file, or renew the token in it",
    403: "the caller is not allowed: check the proxy before slurmrestd, and the token's user",
    404: "it does not serve this path",
    429: "it asks for fewer requests",
    511: "it does not know the caller: set cluster.rest_token_file, or renew the token in it",
    502: "slurmrestd does not answer the proxy before it",
    503: "it takes no requests at present",
    504: "slurmrestd does not answer the proxy before it in time",
}
