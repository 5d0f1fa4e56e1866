"""The limit of a request is for the whole answer: one that comes byte by byte is given up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from mirage.shipped_files import load_client_module

rest = load_client_module("client.rest")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.fixture(params=[HEAD, b"HTTP/1.1 200 OK\r\nX-Pad: "], ids=["body", "head"])
def trickle(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that sends a byte ten times a second while anybody reads."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not over.is_set():  # the first connection only finds out whether somebody listens
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            with stream:
                try:
                    if stream.recv(65536):
                        stream.sendall(request.param)
                        while not over.wait(0.1):
                            stream.sendall(b" ")
                except OSError:
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_an_answer_that_trickles_is_given_up(trickle: str) -> None:
    with pytest.raises(rest.ServiceUnavailable, match="no whole answer came in 1 s"):
        rest.send_request(trickle, "GET", "/api/v1/chains", b"", identified=False, limit_s=1.0)
