"""The lock of learning: one run at a time for a database, whichever host and folder it works in."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from mirage.database.schema.engine import Store
from mirage.errors import InputError, MirageError

_SUFFIX = ".learning"
"""The file beside a database of SQLite that is locked. Not the database itself: to close it would
take away the locks that SQLite has on it."""
_KEYS = {"class": int.from_bytes(b"mira"), "number": 1}
"""Of the advisory lock, which PostgreSQL gives back when the session ends."""
_SESSION = {
    # A host that crashed closes no connection: PostgreSQL asks it, and gives up after 2 min.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    # The connection does nothing else for hours. (PostgreSQL has this setting since 14.)
    "idle_session_timeout": "0",
}
_CHANGE_SETTING = text("SELECT set_config(name, :value, false) FROM pg_settings WHERE name = :name")
_TAKE = text("SELECT pg_try_advisory_lock(:class, :number)")
_FIND_HOLDER = text(
    "SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid) "
    "WHERE locktype = 'advisory' AND classid = :class AND objid = :number AND granted "
    "AND datname = current_database()"
)


class AlreadyLearning(MirageError):
    """Another run of learning goes on."""


@contextmanager
def hold_learning_lock(store: Store) -> Iterator[None]:
    """Hold the lock of learning. It is given back when the process ends, however it ends, and
    two minutes after a crash of the host.

    Raises AlreadyLearning while another process holds it.
    """
    if store.file is not None:
        with _lock_file(store.file.with_name(store.file.name + _SUFFIX)):
            yield
    else:
        with store.open_session() as session:
            _lock_session(session)
            yield


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise _build_refusal(file.read().strip()) from None
        file.truncate(0)
        file.write(_describe_process())
        file.flush()
        yield


def _lock_session(session: Connection) -> None:
    for name, value in {**_SESSION, "application_name": _describe_process()}.items():
        session.execute(_CHANGE_SETTING, {"name": name, "value": value})
    if not session.scalar(_TAKE, _KEYS):
        raise _build_refusal(session.scalar(_FIND_HOLDER, _KEYS))


def _describe_process() -> str:
    return f"mirage learn, process {os.getpid()} on {socket.gethostname()}"


def _build_refusal(holder: str | None) -> AlreadyLearning:
    return AlreadyLearning(
        f"another run of learning goes on ({holder or 'unknown'}): wait for its end"
    )
