"""The server, and how it accepts connections.

asyncio has no limit on connections. Without file descriptors it tries again, and logs it, thousands
of times a second. uvicorn's limit_concurrency answers 503 only after a head has come, counts all
clients together, and leaves a connection to a client that never ends its head.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog
import uvicorn
from starlette.types import ASGIApp

from mirage.logs import ThrottledLog
from mirage.web.shared.auth.unix_peer import ClientTimeouts, PeerProtocol
from mirage.web.shared.server.admission import Admission, AdmittedSocket

_log = structlog.get_logger(__name__)

PAUSE_S = 0.2
"""Seconds between two tries while there are no file descriptors."""
_ACCEPTS_AT_ONCE = 64
"""Connections accepted before other work has its turn."""
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_throttled_log = ThrottledLog()


class ListeningSocket:
    """One listening socket. A connection that cannot be admitted is closed at once."""

    def __init__(
        self,
        listener: socket.socket,
        admission: Admission,
        on_admitted: Callable[[AdmittedSocket], None],
    ) -> None:
        listener.setblocking(False)
        self._listener, self._admission, self._on_admitted = listener, admission, on_admitted
        self._spare_descriptor: int | None = None
        self._pause_timer: asyncio.TimerHandle | None = None
        self.start_accepting()

    def start_accepting(self) -> None:
        self._pause_timer = None
        self._keep_spare()
        asyncio.get_running_loop().add_reader(self._listener, self._accept_clients)

    def stop_accepting(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._release_spare()

    def _accept_clients(self) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._reject_client(error)
                return
            if (admitted := self._admission.admit_connection(accepted)) is not None:
                self._on_admitted(admitted)

    def _reject_client(self, error: OSError) -> None:
        """Close one waiting connection with the spare file descriptor, then pause accepting.

        Without the spare descriptor callers would wait, and the event loop would spin.
        """
        _throttled_log.log_event(_log.error, "no descriptors for callers", error=error.strerror)
        if self._spare_descriptor is not None:
            self._release_spare()
            with suppress(OSError):  # another thread has taken the descriptor
                self._listener.accept()[0].close()
            self._keep_spare()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause_timer = loop.call_later(PAUSE_S, self.start_accepting)

    def _keep_spare(self) -> None:
        if self._spare_descriptor is None:
            try:
                self._spare_descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return  # tried again the next time

    def _release_spare(self) -> None:
        if self._spare_descriptor is not None:
            os.close(self._spare_descriptor)
            self._spare_descriptor = None


class Server(uvicorn.Server):
    """uvicorn with our admission of connections; calls `started` once it answers."""

    def __init__(
        self,
        app: ASGIApp,
        admission: Admission,
        *,
        patience: ClientTimeouts,
        keep_alive_s: int,
        grace_s: int,
        on_started: Callable[[], None],
    ) -> None:
        config = uvicorn.Config(
            app,
            http=PeerProtocol,
            loop="asyncio",  # other loops would not close our own sockets
            ws="none",  # nothing here uses WebSockets, and their connections would have no limits
            # A proxy's word on its caller is not trusted: anybody on this host could write it.
            proxy_headers=False,
            log_config=None,
            access_log=False,
            timeout_keep_alive=keep_alive_s,
            timeout_graceful_shutdown=grace_s,
        )
        super().__init__(config)
        self._admission, self._patience, self._on_started = admission, patience, on_started
        self._listening_sockets: list[ListeningSocket] = []
        self._connecting: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._listening_sockets = [
            ListeningSocket(listener, self._admission, self._take_connection)
            for listener in sockets or []
        ]
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in self._listening_sockets:
            listening.stop_accepting()
        await super().shutdown(sockets)
        self._admission.close()

    def _take_connection(self, admitted: AdmittedSocket) -> None:
        task = asyncio.create_task(self._connect_client(admitted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect_client(self, admitted: AdmittedSocket) -> None:
        client = admitted.client.name if admitted.client.is_single else None

        def make_protocol() -> PeerProtocol:
            state = self.lifespan.state | {"client": client}
            return PeerProtocol(self.config, self.server_state, state, patience=self._patience)

        try:
            await asyncio.get_running_loop().connect_accepted_socket(make_protocol, admitted)
        except BaseException:
            admitted.close()
            raise
