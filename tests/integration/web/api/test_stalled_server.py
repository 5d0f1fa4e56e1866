"""A server that stood still, as on a machine that was paused: whose time that was."""

import asyncio
import threading
import time
from pathlib import Path

from starlette.types import Receive, Scope, Send

from mirage.web.shared.auth.unix_peer import ClientTimeouts
from mirage.web.shared.server.admission import Admission
from tests.integration.web.api.test_admission import app, serving
from tests.support import patient

HEAD = b"POST / HTTP/1.1\r\nHost: mirage\r\nContent-Length: 60000\r\n\r\n"
TIMEOUTS = ClientTimeouts(head_s=600, body_s=0.1, taking_s=600)


def test_a_server_that_stood_still_holds_it_against_no_client(tmp_path: Path) -> None:
    """The body arrived meanwhile: a time that ran out unseen begins anew."""
    still, begun = threading.Event(), threading.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun.set()
        still.wait()  # as a whole machine that is paused: nothing else of the server runs
        while (await receive())["more_body"]:
            pass
        await app(scope, receive, send)

    with serving(Admission(40, 10), tmp_path, TIMEOUTS, reading) as place, place.connect() as one:
        one.sendall(HEAD)
        assert begun.wait(patient.PATIENCE_S)
        one.sendall(bytes(60000))
        time.sleep(3)  # longer than the patience, and than a timer is late for nothing
        still.set()
        assert one.recv(12) == b"HTTP/1.1 200"


def test_a_server_that_is_always_late_still_lets_slow_clients_go(tmp_path: Path) -> None:
    over = threading.Event()

    async def stumbling(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        for _ in range(20):
            time.sleep(1.5)
            await asyncio.sleep(0)
        over.set()

    with serving(Admission(40, 10), tmp_path, TIMEOUTS, stumbling) as place, place.connect() as one:
        one.settimeout(patient.PATIENCE_S)
        one.sendall(HEAD)
        assert one.recv(12) == b"HTTP/1.1 408"
        assert not over.is_set(), "it was waited for as long as the server was late"
