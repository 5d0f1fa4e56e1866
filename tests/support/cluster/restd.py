"""A fake slurmrestd: a real HTTP server on a unix socket, whose answers a test sets."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import urlsplit

OPENAPI = "/openapi/v3"


def openapi(*versions: str, accounting: bool = True) -> dict[str, Any]:
    """Build a document that serves these versions."""
    paths: dict[str, Any] = {}
    for version in versions:
        paths[f"/slurm/{version}/jobs"] = {"get": {}}
        if accounting:
            queries = [{"name": "start_time"}, {"name": "skip_steps"}]
            paths[f"/slurmdb/{version}/jobs"] = {"get": {"parameters": queries}}
    return {"paths": paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    raw: bytes
    seconds: float
    cut: int
    drip_s: float
    headers: dict[str, str]


class FakeRestd:
    """A slurmrestd that at first serves only v0.0.38. A path without an answer is a 404."""

    def __init__(self, folder: Path) -> None:
        self.url = f"unix:{folder / 'restd.sock'}"
        self.requests: list[Request] = []
        self.stop = threading.Event()
        self._answers: dict[str, _Answer] = {}
        self._turns: dict[str, list[_Answer]] = {}
        self._dropped: dict[str, int] = {}
        self.answers(OPENAPI, openapi("v0.0.38"))

    def answers(  # noqa: PLR0913 what a server can do is much
        self,
        path: str,
        body: Any = None,
        *,
        status: int = 200,
        seconds: float = 0.0,
        cut: int = 0,
        drip_s: float = 0.0,
        headers: dict[str, str] | None = None,
        method: str = "",
    ) -> None:
        """Set the answer to requests for `path`. Text and bytes are sent as they are.

        `method`: only to requests with this method.
        """
        raw = _raw(body)
        self._answers[f"{method} {path}".strip()] = _Answer(
            status=status, raw=raw, seconds=seconds, cut=cut, drip_s=drip_s, headers=headers or {}
        )

    def answers_in_turn(self, path: str, *answers: tuple[int, Any], method: str) -> None:
        """Set status and body of the answers to the next requests; the last one stays."""
        self._turns[f"{method} {path}"] = [
            _Answer(status=status, raw=_raw(body), seconds=0, cut=0, drip_s=0, headers={})
            for status, body in answers
        ]

    def drops(self, path: str, *, times: int) -> None:
        """Read the next `times` requests for `path`, and end their connections unanswered."""
        self._dropped[path] = times

    def find_answer(self, method: str, path: str) -> _Answer | None:
        turns = self._turns.get(f"{method} {path}")
        if turns:
            return turns.pop(0) if len(turns) > 1 else turns[0]
        return self._answers.get(f"{method} {path}") or self._answers.get(path)

    def is_dropped(self, path: str) -> bool:
        drops_left = self._dropped.get(path, 0)
        self._dropped[path] = drops_left - 1
        return drops_left > 0

    def calls(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]


@contextmanager
def serving_restd(fake: FakeRestd) -> Iterator[None]:
    with _Server(fake.url.removeprefix("unix:"), fake) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield
        finally:
            fake.stop.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = False

    def __init__(self, path: str, fake: FakeRestd) -> None:
        self.fake = fake
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET  # noqa: N815

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 http.server's name
        """Nothing on stderr."""

    def _answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        fake = self.server.fake
        headers = {name.lower(): value for name, value in self.headers.items()}
        fake.requests.append(
            Request(method=self.command, path=url.path, query=url.query, headers=headers, body=body)
        )
        if fake.is_dropped(url.path):
            self.close_connection = True
            return
        answer = fake.find_answer(self.command, url.path)
        if answer is None:
            self.send_error(404)
            return
        fake.stop.wait(answer.seconds)
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.raw)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self._send(answer)

    def _send(self, answer: _Answer) -> None:
        raw = answer.raw[: len(answer.raw) - answer.cut]
        if not answer.drip_s:
            self.wfile.write(raw)
            return
        for i in range(len(raw)):
            if self.server.fake.stop.is_set():
                return
            self.wfile.write(raw[i : i + 1])
            self.wfile.flush()
            time.sleep(answer.drip_s)


def _raw(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()
