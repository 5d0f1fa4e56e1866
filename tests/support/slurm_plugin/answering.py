"""A service that answers links as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Service(HTTPServer):
    """A service that answers each GET with the next of `answers`, and repeats the last one.

    An answer is a document (200), a status, or else 503. POSTs are recorded and answered with
    `post_status`, or 422 if the body has the field `unknown_field`. `requests`: path and
    Authorization of each GET. `posted`: path and body of each POST.
    """

    answers: list[object]
    requests: list[tuple[str, str]]
    post_status = 201
    unknown_field = ""
    posted: list[tuple[str, bytes]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        server = self.server
        server.requests.append((self.path, self.headers["Authorization"]))
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        status = 200 if isinstance(answer, dict) else 503
        self.send_response(answer if isinstance(answer, int) else status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, body))
        unknown_field = self.server.unknown_field
        self.send_response(
            422 if unknown_field and unknown_field in json.loads(body) else self.server.post_status
        )
        self.end_headers()
        self.wfile.write(b'{"detail": "the reason"}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def answering() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), _Handler) as server:
        server.requests, server.posted = [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
