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


def send_halves(address: tuple[str, int], count: int) -> None:
    """Half of them heads, half of them bodies; a byte a second, and anew when closed."""
    _keep_open(address, count, lambda n: _BODY if n % 2 else _HEAD, b"x")


def read_events(address: tuple[str, int], count: int) -> None:
    """Streams that are read; refused or ended, they ask again after a second."""
    _keep_open(address, count, lambda _: _EVENTS, b"")


def _keep_open(
    address: tuple[str, int], count: int, build_request: Callable[[int], bytes], chunk: bytes
) -> None:
    with selectors.DefaultSelector() as selector:
        number = 0
        while True:
            next_chunk_at = time.monotonic() + 1
            while len(selector.get_map()) < count:
                number += 1
                try:
                    connection = socket.create_connection(address, timeout=_PATIENCE_S)
                    selector.register(connection, selectors.EVENT_READ)
                    connection.sendall(build_request(number))
                except OSError:
                    break
            while (left_s := next_chunk_at - time.monotonic()) > 0:
                for key, _ in selector.select(left_s):
                    _read_some(selector, key.fileobj)
            for key in list(selector.get_map().values()):
                if chunk:
                    _send_to(selector, key.fileobj, chunk)


def _read_some(selector: selectors.BaseSelector, connection: object) -> None:
    assert isinstance(connection, socket.socket)  # noqa: S101 - what was registered
    try:
        if connection.recv(65536):
            return
    except OSError:
        pass
    selector.unregister(connection)
    connection.close()


def _send_to(selector: selectors.BaseSelector, connection: object, request: bytes) -> None:
    assert isinstance(connection, socket.socket)  # noqa: S101 - what was registered
    try:
        connection.sendall(request)
    except OSError:
        selector.unregister(connection)
        connection.close()


def send_tokens(address: tuple[str, int], count: int) -> None:
    """Threads that ask with a token that is none, as fast as they are answered."""
    _run_threads(count, lambda: _ask_again(address, _BAD))


def take_exports(address: tuple[str, int], count: int) -> None:
    """Files of all jobs, taken two kilobytes a second."""
    _run_threads(count, lambda: _take_slowly(address))


def _run_threads(count: int, action: Callable[[], None]) -> None:
    def repeat_action() -> None:
        while True:
            try:
                action()
            except OSError:
                time.sleep(0.2)

    for _ in range(count):
        threading.Thread(target=repeat_action, daemon=True).start()
    threading.Event().wait()


def _ask_again(address: tuple[str, int], request: bytes) -> None:
    with socket.create_connection(address, timeout=_PATIENCE_S) as connection:
        while True:
            connection.sendall(request)
            if not connection.recv(65536):
                raise ConnectionResetError


def _take_slowly(address: tuple[str, int]) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(_PATIENCE_S)
        connection.connect(address)
        connection.sendall(_EXPORT)
        while connection.recv(2048):
            time.sleep(1)
    time.sleep(1)


def ask_ahead(address: tuple[str, int], count: int) -> None:
    """Connections that ask on and on: each answer is taken, none is waited for."""
    _run_threads(count, lambda: _ask_ahead(address, _BAD))


def _ask_ahead(address: tuple[str, int], request: bytes) -> None:
    requests, offset = request * 500, 0
    with socket.create_connection(address, timeout=_PATIENCE_S) as connection:
        connection.setblocking(False)
        while True:
            readable, writable, _ = select.select([connection], [connection], [])
            if readable and not connection.recv(65536):
                raise ConnectionResetError
            if writable:
                offset = (offset + connection.send(requests[offset:])) % len(request)


KINDS = {
    "halves": send_halves,
    "tokens": send_tokens,
    "exports": take_exports,
    "events": read_events,
    "ahead": ask_ahead,
}


def main(kind: str, host: str, port: int, count: int, uid: int) -> None:
    if os.geteuid() == 0:
        os.setuid(uid)
    KINDS[kind]((host, port), count)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
