"""Serves callers on a unix socket. The kernel names them (SO_PEERCRED), so they need no secret."""

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import h11
import structlog
from starlette.datastructures import State
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mirage.domain.callers.caller import Caller
from mirage.errors import InputError
from mirage.logs import ThrottledLog
from mirage.slurm.clients.host_accounts import build_caller
from mirage.web.shared.auth.socket_owner import read_peer_uid

_log = structlog.get_logger(__name__)

_MAX_PATH_BYTES = 107
"""The most bytes of a socket's path: sun_path of Linux has 108."""
_TIMEOUT_ANSWER = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_READ_BYTES = 16 * 1024
"""Bytes read at once. asyncio reads 256 KiB, all of which one connection could occupy."""
_LATE_S = 1.0
"""If a timer is this many seconds late, this process stood still and not the client."""
_INCOMPLETE_STATES = frozenset({h11.IDLE, h11.SEND_BODY})
"""States of a client whose request is not complete yet."""

_throttled_log = ThrottledLog()


class AwaitedPart(StrEnum):
    """The part of a request that a client has not completed."""

    HEAD = "head"
    BODY = "body"
    TAKING = "taking the answer"


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """The seconds that a client has for each part of a request as a whole.

    A byte now and then gives no more time. Between two requests uvicorn's timeout_keep_alive
    counts. h11 bounds the length of a head (16 KiB).
    """

    head_s: float = 10.0
    body_s: float = 20.0
    taking_s: float = 30.0
    """For the rest of a complete answer, or of an answer that is too long to be held here."""

    def get_timeout(self, part: AwaitedPart) -> float:
        by_part = {AwaitedPart.HEAD: self.head_s, AwaitedPart.BODY: self.body_s}
        return by_part.get(part, self.taking_s)


class _OneRequestFlow(FlowControl):
    """Reads nothing more while a request waits for its turn.

    uvicorn reads on whenever an answer begins, although it takes one request at a time from the
    bytes. A client that asks faster than it is answered would fill the memory.
    """

    def __init__(
        self, transport: asyncio.Transport, has_waiting_request: Callable[[], bool]
    ) -> None:
        super().__init__(transport)
        self._has_waiting_request = has_waiting_request

    def resume_reading(self) -> None:
        if self.read_paused and not self._has_waiting_request():
            super().resume_reading()


class PeerProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP/1.1 that tells the application which user is at the other end of a unix socket.

    It puts the user into the application's state, which no header such as X-Forwarded-For can
    change.

    An answer may be endless. It registers a function by `at_ending` in that state; the protocol
    calls the function when the server is told to end, which otherwise waits for the answer.

    The protocol waits for no client longer than ClientTimeouts says, and holds no more than one
    read of requests that a client sends ahead.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        patience: ClientTimeouts | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._patience = patience or ClientTimeouts()
        self._awaited_part: AwaitedPart | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_had_more_time = False
        self._is_write_buffer_full = False
        self._ending = False
        self._on_ending: Callable[[], None] | None = None
        self._read_buffer = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's word
        self._read_buffer = bytearray(_READ_BYTES)
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        buffer, self._read_buffer = self._read_buffer, bytearray()
        self.data_received(bytes(memoryview(buffer)[:nbytes]))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _OneRequestFlow(transport, self._has_waiting_request)
        self.app_state = {**self.app_state, "at_ending": self._call_at_ending}
        # Ends a connection whose client does not read; closing it would wait for the client.
        self.app_state["cut"] = transport.abort
        connection: socket.socket = transport.get_extra_info("socket")
        if connection.family is not socket.AF_UNIX:
            # Without it an answer in two parts waits 40 ms for an acknowledgement. asyncio sets it
            # only on sockets that were made with the protocol TCP named.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.app_state["peer_uid"] = read_peer_uid(connection)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.SEND_BODY:  # in a body uvicorn itself resumes reading
            self.flow.resume_reading()
        self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timer()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._update_timer()

    def eof_received(self) -> None:
        # The transport closes after this; an answer that nobody takes would keep it open.
        self._set_timer(AwaitedPart.TAKING)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_write_buffer_full = True
        self._update_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_write_buffer_full = False
        self._set_timer(None)
        self._update_timer()

    def shutdown(self) -> None:
        super().shutdown()
        self._ending = True
        if self._on_ending is not None:
            self._on_ending()

    def _call_at_ending(self, on_ending: Callable[[], None]) -> None:
        self._on_ending = on_ending  # of the answer under way: HTTP/1.1 has one at a time
        if self._ending:
            on_ending()

    def _update_timer(self) -> None:
        """Start the timer of the awaited part; a part that is awaited already keeps its timer."""
        if self.transport.is_closing() or self._is_write_buffer_full or self._has_untaken_answer():
            self._set_timer(AwaitedPart.TAKING)
        elif self.conn.their_state is h11.SEND_BODY:
            self._set_timer(AwaitedPart.BODY)
        elif self.conn.their_state is h11.IDLE and self._has_begun_a_head():
            self._set_timer(AwaitedPart.HEAD)
        else:
            self._set_timer(None)

    def _has_untaken_answer(self) -> bool:
        """Return whether the client has not taken an answer, even if it sends the next request."""
        is_complete = self.cycle is not None and self.cycle.response_complete
        is_answer_ready = is_complete or self._awaited_part is AwaitedPart.TAKING
        return is_answer_ready and self.transport.get_write_buffer_size() > 0

    def _has_waiting_request(self) -> bool:
        """Return whether a request, or its beginning, waits behind one that is not yet answered."""
        return self.conn.their_state not in _INCOMPLETE_STATES and bool(self.conn.trailing_data[0])

    def _has_begun_a_head(self) -> bool:
        """Return whether a head has begun; the first head begins with the connection."""
        return self.cycle is None or bool(self.conn.trailing_data[0])

    def _set_timer(self, part: AwaitedPart | None) -> None:
        if part is self._awaited_part:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaited_part = part
        if part is not None:
            self._timer = self.loop.call_later(
                self._patience.get_timeout(part), self._handle_timeout
            )

    def _handle_timeout(self) -> None:
        timer, part = self._timer, self._awaited_part
        self._awaited_part, self._timer = None, None
        is_late = timer is not None and self.loop.time() - timer.when() > _LATE_S
        if is_late and not self._has_had_more_time:
            # The client may have sent all of it meanwhile. This grace is given once a connection:
            # a server that is always late, as under a flood, would otherwise end no slow client.
            self._has_had_more_time = True
            self._set_timer(part)
            return
        if part is None or (part is AwaitedPart.TAKING and self._has_taken_all()):
            self._update_timer()  # the client may have begun to send something meanwhile
            return
        client = self.app_state.get("client")
        _throttled_log.log_event(
            _log.info, "a client was too slow", kind=part, awaited=part.value, client=client
        )
        if part is AwaitedPart.TAKING:
            self.transport.abort()
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_TIMEOUT_ANSWER)
        self.transport.close()
        self._update_timer()

    def _has_taken_all(self) -> bool:
        unsent_bytes = self.transport.get_write_buffer_size()
        return not (unsent_bytes or self._is_write_buffer_full or self.transport.is_closing())


def get_peer_caller(state: State) -> Caller | None:
    """Return the user at the other end of a unix socket; None for a network connection."""
    uid: Any = getattr(state, "peer_uid", None)
    if uid is None:
        return None
    return build_caller(uid, via="socket")


def listen_on_path(path: Path, *, private: bool) -> socket.socket:
    """Listen on a socket at `path`, and replace a socket on which nobody listens any more.

    A private socket is open to its owner alone, any other to every user of the host. Raises
    InputError.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise InputError(
            f"choose a shorter path for the socket ({_MAX_PATH_BYTES} bytes at most): {path}"
        )
    listener = socket.socket(socket.AF_UNIX)
    old_umask = os.umask(0o177 if private else 0o111)
    try:
        _remove_stale_socket(path)
        listener.bind(str(path))
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(old_umask)
    return listener


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket that refuses callers. Raises InputError for any other file at the path."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InputError(f"cannot listen on {path}: the file is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise InputError(f"cannot listen on {path}: another service listens there")
