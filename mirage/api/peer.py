"""Callers on a unix socket: the kernel says who they are (SO_PEERCRED), so no secret is needed."""

import asyncio
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.datastructures import State
from uvicorn.protocols.http.h11_impl import H11Protocol

from mirage.domain.caller import Caller
from mirage.errors import InputError

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of Linux
_LONGEST = 107
"""Bytes of a socket's path: sun_path of Linux has 108."""


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application which user is at the other end of a unix socket.

    In the application's state, where no header reaches: X-Forwarded-For can say nothing here.

    And one whose answers may be without end: `at_ending` in that state takes what is to be called
    when the server is told to end, which else waits for the answer under way.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._ending = False
        self._end: Callable[[], None] | None = None
        self.app_state = {**self.app_state, "at_ending": self._call_at_ending}
        # What ends a connection whose client does not read: one that is closed waits for it.
        self.app_state["cut"] = transport.abort
        end: socket.socket = transport.get_extra_info("socket")
        if end.family is not socket.AF_UNIX:
            # Else an answer in two parts waits 40 ms for an acknowledgement. asyncio sets it on
            # sockets that say they are TCP, which one made without naming its protocol does not.
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.app_state["peer_uid"] = _CREDENTIALS.unpack(found)[1]

    def shutdown(self) -> None:
        super().shutdown()
        self._ending = True
        if self._end is not None:
            self._end()

    def _call_at_ending(self, end: Callable[[], None]) -> None:
        self._end = end  # of the one answer under way: HTTP/1.1 has no two at once
        if self._ending:
            end()


def peer(state: State) -> Caller | None:
    """Who is at the other end; None where that is a network."""
    uid: Any = getattr(state, "peer_uid", None)
    if uid is None:
        return None
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return Caller(uid, user, via="socket")


def listen(path: Path, *, private: bool) -> socket.socket:
    """A socket at `path`, in the place of one that nobody listens on any more.

    `private`: for its owner alone; else for every user of the host. Raises InputError.
    """
    if len(os.fsencode(path)) > _LONGEST:
        raise InputError(f"the socket's path is too long ({_LONGEST} bytes at most): {path}")
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177 if private else 0o111)
    try:
        _clear(path)
        listening.bind(str(path))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    return listening


def _clear(path: Path) -> None:
    """Only a socket is taken away, and only one that refuses callers."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InputError(f"cannot listen on {path}: it is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise InputError(f"cannot listen on {path}: another service does")
