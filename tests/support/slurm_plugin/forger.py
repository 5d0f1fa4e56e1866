"""Somebody who listens where Mirage is thought to be, keeps what is said, and answers at will."""

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
"""A user without a name here: neither root nor the account `mirage` nor who runs the tests."""
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
    asking, _ = listening.accept()
    heard = b""
    while b"\r\n\r\n" not in heard:
        part = asking.recv(65536)
        if not part:
            break
        heard += part
    print(repr(heard), flush=True)
    if not heard:  # whoever only knocks gets no answer, and takes nobody's
        asking.close()
        continue
    asking.sendall((answers.pop(0) if len(answers) > 1 else answers[0]).encode())
    asking.close()
"""

NOW = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    '{"submit_now": true, "ask_again_s": 1, "items": [], "next": null, "mode": "shadow"}'
)
"""Whatever was asked: well done, and submit the next link now."""


@dataclass(frozen=True, slots=True)
class Forger:
    url: str
    way: tuple[socket.AddressFamily, object]
    out: Path

    def heard(self) -> str:
        """All that was said to them so far; they hear one after the other, so what comes last is
        ours."""
        with closing(socket.socket(self.way[0])) as last:
            last.connect(self.way[1])  # type: ignore[arg-type]
            last.sendall(b"that was all\r\n\r\n")
        wait_until(lambda: "that was all" in self.out.read_text())
        lines = self.out.read_text().splitlines()[1:]
        return "\n".join(line for line in lines if line != "b''" and "that was all" not in line)


@contextmanager
def forging(
    *answers: str, uid: int = BOB, host: str = "127.0.0.1", path: Path | None = None
) -> Iterator[Forger]:
    """`path`: on a unix socket there, in a directory where that user may write. The last of the
    answers is for all further questions."""
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
