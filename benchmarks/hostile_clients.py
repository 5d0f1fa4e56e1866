"""Clients that mean no good, each kind a process of its own: `python -m benchmarks.hostile_clients
KIND HOST PORT MANY UID` until it is ended. Root becomes that user. Run by
benchmarks/hostile_load.py."""

import encodings.idna  # noqa: F401 - Python loads it late, from where others than root may not read
import os
import select
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable

_PATIENCE_S = 60.0
_BAD = (
    b"GET /api/v1/chains HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer mirage_wrong\r\n\r\n"
)
_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
_BODY = (
    b"POST /api/v1/chains HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 60000\r\n\r\n["
)
_EXPORT = b"GET /api/v1/jobs?format=csv HTTP/1.1\r\nHost: localhost\r\n\r\n"
_EVENTS = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def halves(where: tuple[str, int], many: int) -> None:
    """Half of them heads, half of them bodies; a byte a second, and anew when closed."""
    _held(where, many, lambda n: _BODY if n % 2 else _HEAD, b"x")


def events(where: tuple[str, int], many: int) -> None:
    """Streams that are read; refused or ended, they ask again after a second."""
    _held(where, many, lambda _: _EVENTS, b"")


def _held(where: tuple[str, int], many: int, begin: Callable[[int], bytes], each_s: bytes) -> None:
    with selectors.DefaultSelector() as selector:
        number = 0
        while True:
            due = time.monotonic() + 1
            while len(selector.get_map()) < many:
                number += 1
                try:
                    one = socket.create_connection(where, timeout=_PATIENCE_S)
                    selector.register(one, selectors.EVENT_READ)
                    one.sendall(begin(number))
                except OSError:
                    break
            while (left := due - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    _heard(selector, key.fileobj)
            for key in list(selector.get_map().values()):
                if each_s:
                    _sent(selector, key.fileobj, each_s)


def _heard(selector: selectors.BaseSelector, one: object) -> None:
    assert isinstance(one, socket.socket)  # noqa: S101 - what was registered
    try:
        if one.recv(65536):
            return
    except OSError:
        pass
    selector.unregister(one)
    one.close()


def _sent(selector: selectors.BaseSelector, one: object, what: bytes) -> None:
    assert isinstance(one, socket.socket)  # noqa: S101 - what was registered
    try:
        one.sendall(what)
    except OSError:
        selector.unregister(one)
        one.close()


def tokens(where: tuple[str, int], many: int) -> None:
    """Threads that ask with a token that is none, as fast as they are answered."""
    _threads(many, lambda: _asking(where, _BAD))


def exports(where: tuple[str, int], many: int) -> None:
    """Files of all jobs, taken two kilobytes a second."""
    _threads(many, lambda: _taking(where))


def _threads(many: int, do: Callable[[], None]) -> None:
    def again() -> None:
        while True:
            try:
                do()
            except OSError:
                time.sleep(0.2)

    for _ in range(many):
        threading.Thread(target=again, daemon=True).start()
    threading.Event().wait()


def _asking(where: tuple[str, int], what: bytes) -> None:
    with socket.create_connection(where, timeout=_PATIENCE_S) as one:
        while True:
            one.sendall(what)
            if not one.recv(65536):
                raise ConnectionResetError


def _taking(where: tuple[str, int]) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(_PATIENCE_S)
        one.connect(where)
        one.sendall(_EXPORT)
        while one.recv(2048):
            time.sleep(1)
    time.sleep(1)


def ahead(where: tuple[str, int], many: int) -> None:
    """Connections that ask on and on: each answer is taken, none is waited for."""
    _threads(many, lambda: _asking_on(where, _BAD))


def _asking_on(where: tuple[str, int], what: bytes) -> None:
    much, at = what * 500, 0
    with socket.create_connection(where, timeout=_PATIENCE_S) as one:
        one.setblocking(False)
        while True:
            heard, open_to_more, _ = select.select([one], [one], [])
            if heard and not one.recv(65536):
                raise ConnectionResetError
            if open_to_more:
                at = (at + one.send(much[at:])) % len(what)


KINDS = {
    "halves": halves,
    "tokens": tokens,
    "exports": exports,
    "events": events,
    "ahead": ahead,
}


def main(kind: str, host: str, port: int, many: int, uid: int) -> None:
    if os.geteuid() == 0:
        os.setuid(uid)
    KINDS[kind]((host, port), many)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
