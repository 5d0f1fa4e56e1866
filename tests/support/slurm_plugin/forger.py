"""A user who listens where Mirage should be, records the requests, and answers at will."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.patient import wait_until

BOB = 6502
"""A user without a name on this host: neither root, nor `mirage`, nor the user of the tests."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of another user")

LISTEN = r"""
import socket, sys
way, where, *answers = sys.argv[1:]
if way == "unix":
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(where)
    __import__("os").chmod(where, 0o777)
else:
    listening = socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET)
    listening.bind((where, 0))
listening.listen()
print(listening.getsockname()[1] if way == "tcp" else 0, flush=True)
while True:
    connection, _ = listening.accept()
    request = b""
    while b"\r\n\r\n" not in request:
        part = connection.recv(65536)
        if not part:
            break
        request += part
    print(repr(request), flush=True)
    if not request:  # a peer that only probes the port uses up no answer
        connection.close()
        continue
    connection.sendall((answers.pop(0) if len(answers) > 1 else answers[0]).encode())
    connection.close()
"""

NOW = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    '{"submit_now": true, "ask_again_s": 1, "items": [], "next": null, "mode": "shadow"}'
)
"""An answer to any request: success, and submit the next link now."""


@dataclass(frozen=True, slots=True)
class Forger:
    url: str
    way: tuple[socket.AddressFamily, object]
    out: Path

    def read_requests(self) -> str:
        """Return all requests so far. The forger serves one connection after the other, so once our
        own request is recorded all earlier ones are."""
        with closing(socket.socket(self.way[0])) as own_connection:
            own_connection.connect(self.way[1])  # type: ignore[arg-type]
            own_connection.sendall(b"that was all\r\n\r\n")
        wait_until(lambda: "that was all" in self.out.read_text())
        lines = self.out.read_text().splitlines()[1:]
        return "\n".join(line for line in lines if line != "b''" and "that was all" not in line)


@contextmanager
def forging(
    *answers: str, uid: int = BOB, host: str = "127.0.0.1", path: Path | None = None
) -> Iterator[Forger]:
    """Run a forger. `path`: on a unix socket there, in a directory where that user may write. The
    last answer is repeated for all further requests."""
    folder = Path(tempfile.mkdtemp(prefix="mirage-forger-", dir="/tmp"))
    out = folder / "out"
    place = ["unix", str(path)] if path else ["tcp", host]
    with out.open("wb") as sink:
        process = subprocess.Popen(
            ["/usr/bin/python3", "-IS", "-c", LISTEN, *place, *(answers or [NOW])],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sys.stderr,
            user=uid,
            group=uid,
            extra_groups=[],
        )
    try:
        wait_until(lambda: "\n" in out.read_text())
        port = int(out.read_text().split()[0])
        if path:
            yield Forger(f"unix://{path}", (socket.AF_UNIX, str(path)), out)
        else:
            way = (socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port))
            yield Forger(f"http://{host}:{port}", way, out)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@contextmanager
def folder_of(uid: int, mode: int = 0o755) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mirage-of-", dir="/tmp"))
    try:
        os.chown(folder, uid, uid)
        folder.chmod(mode)
        yield folder
    finally:
        shutil.rmtree(folder)
