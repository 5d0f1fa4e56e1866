"""A small real HTTP server that receives webhooks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Call:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    port: int = 0
    status: int = 204
    location: str = ""
    calls: list[Call] = field(default_factory=list)

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver: Receiver = self.server.receiver  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.calls.append(Call(self.path, dict(self.headers.items()), body))
        self.send_response(receiver.status)
        if receiver.location:
            self.send_header("Location", receiver.location)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.receiver = receiver  # type: ignore[attr-defined]
        receiver.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
