"""Stand between a service and Slurm, and keep its moves until a test lets them go or drops them."""

import http.client
import os
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

_SCONTROL = """#!/bin/sh
if [ "$1" = update ] && [ -e "{folder}/shut" ]; then
    : >"{folder}/reached"
    while [ -e "{folder}/shut" ]; do sleep 1; done
    exit 1
fi
exec {real} "$@"
"""


class Gate(Protocol):
    path: str | None
    """The PATH of the service; None: its own."""
    url: str

    def shut(self) -> None:
        """Moves wait from now on."""
        ...

    def is_reached(self) -> bool:
        """A move waits."""
        ...

    def drop(self) -> None:
        """Those that wait are never made; later ones pass."""
        ...


class CommandsGate:
    """A scontrol before the real one on the service's PATH."""

    url = ""

    def __init__(self, folder: Path, real: str) -> None:
        self._folder = folder
        folder.mkdir()
        folder.chmod(0o777)
        script = folder / "scontrol"
        script.write_text(_SCONTROL.format(folder=folder, real=shutil.which("scontrol", path=real)))
        script.chmod(0o755)
        self.path: str | None = f"{folder}{os.pathsep}{real}"

    def shut(self) -> None:
        (self._folder / "shut").touch()

    def is_reached(self) -> bool:
        return (self._folder / "reached").exists()

    def drop(self) -> None:
        (self._folder / "shut").unlink()


class RestGate:
    """A proxy before slurmrestd."""

    path: str | None = None

    def __init__(self, slurmrestd: str) -> None:
        self.address = slurmrestd.removeprefix("unix:")
        self.open, self.reached = threading.Event(), threading.Event()
        self.open.set()
        self._server = _Proxy(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def shut(self) -> None:
        self.open.clear()

    def is_reached(self) -> bool:
        return self.reached.is_set()

    def drop(self) -> None:
        self.open.set()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Proxy(ThreadingHTTPServer):
    def __init__(self, gate: RestGate) -> None:
        self.gate = gate
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A service that was killed does not wait for its answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy

    def do_GET(self) -> None:
        gate = self.server.gate
        if self.command != "GET" and not gate.open.is_set():
            gate.reached.set()
            gate.open.wait()
            self.close_connection = True
            return
        self._pass_on(gate.address)

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 http.server's name
        """Nothing on stderr."""

    def _pass_on(self, address: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("localhost", timeout=600)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address)
        try:
            connection.request(self.command, self.path, body or None, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
