"""A service that answers links as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Service(HTTPServer):
    """Answers every question after the chain's next link from `answers`, the last one for ever:
    a document, a status, or 503 where it is neither. Keeps what is posted, and answers `taken`; 422
    to a body with the name `unheard`."""

    answers: list[object]
    asked: list[tuple[str, str]]
    taken = 201
    unheard = ""
    posted: list[tuple[str, bytes]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        server = self.server
        server.asked.append((self.path, self.headers["Authorization"]))
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        good = 200 if isinstance(answer, dict) else 503
        self.send_response(answer if isinstance(answer, int) else good)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, body))
        unheard = self.server.unheard
        self.send_response(422 if unheard and unheard in json.loads(body) else self.server.taken)
        self.end_headers()
        self.wfile.write(b'{"detail": "the reason"}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def answering() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), _Handler) as server:
        server.asked, server.posted = [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
