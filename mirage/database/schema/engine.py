"""Opens the database, begins and ends its transactions, and translates its errors."""

import json
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
    inspect,
    literal_column,
    select,
    table,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from mirage.database.schema.tables import SCHEMA, UNFINISHED, VERSION_TABLE
from mirage.errors import InputError, SchemaMismatch, StoreError, StoreUnavailable

Transaction: TypeAlias = Connection
"""A transaction, the first argument of every function of this package. `Store.begin` or
`Store.read` opens it."""

BUSY_S = 15.0
"""Seconds for which a SQLite writer waits for another one."""

_CONNECT_S = 10
_READ_ONLY = "mirage_read_only"
_BEFORE_COMMIT = "mirage_before_commit"
_POOL = {"pool_size": 8, "max_overflow": 48, "pool_timeout": 15.0}
"""Connections: one for each thread that answers requests (Starlette has 40), and more for the
worker and the feed of changes, so that the worker never waits for readers. PostgreSQL allows 100 by
default."""
_SQLITE, _POSTGRESQL = "sqlite", "postgresql"


class Store:
    """One database. `url`: `sqlite:////var/lib/mirage/mirage.db` or `postgresql://host/name`."""

    def __init__(self, url: str, *, durable: bool = True) -> None:
        """`durable`: what is committed survives a power cut. A demo on SQLite is not durable, so
        its commits need not wait for the disk."""
        self._url = parse_url(url)
        self._engine = make_engine(self._url, durable=durable)

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """Open a transaction that may write. It is committed at the end, or rolled back by an
        exception."""
        actions: list[Callable[[Transaction], None]] = []
        with _translate_errors(self._url), self._engine.connect() as tx, tx.begin():
            tx.execution_options(**{_BEFORE_COMMIT: actions})
            yield tx
            for action in actions:
                action(tx)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a transaction that sees one state of the database and cannot change it."""
        options: dict[str, Any] = {_READ_ONLY: True}
        if self._url.get_backend_name() == _POSTGRESQL:
            options |= {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"}
        with (
            _translate_errors(self._url),
            self._engine.connect().execution_options(**options) as tx,
            tx.begin(),
        ):
            yield tx

    @contextmanager
    def open_session(self) -> Iterator[Connection]:
        """Open a connection outside of transactions that is closed at the end: what its session
        holds ends with it."""
        with _translate_errors(self._url), self._engine.connect() as session:
            session.execution_options(isolation_level="AUTOCOMMIT")
            session.detach()
            yield session

    @property
    def file(self) -> Path | None:
        """The file of a database of SQLite; None: it is one of PostgreSQL."""
        return Path(self._url.database or "") if self._is_sqlite else None

    @property
    def is_shared(self) -> bool:
        """Whether services on several hosts may use this database: one of SQLite is one host's."""
        return not self._is_sqlite

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == _SQLITE

    @property
    def description(self) -> str:
        """The database in words that an admin knows, without credentials."""
        return describe_database(self._url)

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless the database has the schema that this program needs."""
        with self.read() as tx:
            schema = read_schema_version(tx)
        where = self.description
        if schema is None:
            raise SchemaMismatch(f"{where} has no schema yet: run `mirage db upgrade`")
        if schema < SCHEMA:
            raise SchemaMismatch(
                f"{where} has schema {schema}, this program needs {SCHEMA}: run `mirage db upgrade`"
            )
        if schema > SCHEMA:
            raise build_newer_schema_error(where, schema)

    def close(self) -> None:
        self._engine.dispose()


def run_before_commit(tx: Transaction, action: Callable[[Transaction], None]) -> None:
    """Have `action` write as the last thing of this transaction, so its locks are held briefly.

    This works only in a transaction of `Store.begin`. In another one, such as a migration's, the
    action is never called.
    """
    actions: list[Callable[[Transaction], None]] | None
    if (actions := tx.get_execution_options().get(_BEFORE_COMMIT)) is not None:
        actions.append(action)


def build_newer_schema_error(where: str, version: str) -> SchemaMismatch:
    """Build the error of a database with a schema after SCHEMA, as UNFINISHED sorts too."""
    if version == UNFINISHED:
        return SchemaMismatch(
            f"{where} is an unfinished copy: run the same `mirage db copy` again to finish it, or "
            "use another database"
        )
    return SchemaMismatch(
        f"{where} has schema {version}, newer than {SCHEMA}, the newest this program knows: "
        "use the Mirage that upgraded it, or a later one"
    )


def read_schema_version(tx: Transaction) -> str | None:
    """Return the database's schema revision, a number of four digits; None: the database is
    empty."""
    if not inspect(tx).has_table(VERSION_TABLE):
        return None
    version = tx.scalar(select(literal_column("version_num")).select_from(table(VERSION_TABLE)))
    return None if version is None else str(version)


def mask_url(url: str) -> str:
    """Return the URL with its secrets masked. A URL without secrets is returned unchanged, and
    nothing of a malformed one."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "***"
    if parsed.password is None and not any("password" in name.lower() for name in parsed.query):
        return url
    query = {k: "hidden" if "password" in k.lower() else v for k, v in parsed.query.items()}
    return parsed.set(query=query).render_as_string(hide_password=True)


def parse_url(url: str) -> URL:
    """Parse the URL and name its driver. Errors never repeat the URL, as it may hold a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InputError(
            "the database URL is malformed: write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    name = parsed.drivername.partition("+")[0]
    if name == _SQLITE and parsed.database not in {None, "", ":memory:"}:
        return parsed.set(drivername="sqlite+pysqlite")
    if name in {_POSTGRESQL, "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise InputError(
        "the database URL must be sqlite:///FILE or postgresql://USER@HOST/NAME, "
        f"this one begins with {parsed.drivername}"
    )


def make_engine(url: URL, *, foreign_keys: bool = True, durable: bool = True) -> Engine:
    """Make the engine of a URL. `durable` is as in `Store`.

    Migrations set `foreign_keys=False`: on SQLite they rebuild a table by dropping the old one,
    which with foreign keys would delete the rows that refer to it.
    """
    if url.get_backend_name() == _SQLITE:
        engine = create_engine(
            url, json_serializer=_serialize_json, connect_args={"timeout": BUSY_S}, **_POOL
        )
        _configure_sqlite(engine, foreign_keys=foreign_keys, durable=durable)
        return engine
    try:
        return create_engine(
            url,
            json_serializer=_serialize_json,
            connect_args={"connect_timeout": _CONNECT_S},
            pool_pre_ping=True,
            **_POOL,
        )
    except ImportError as error:
        raise StoreUnavailable(
            "PostgreSQL needs psycopg: pip install 'mirage-provisioner[postgres]'"
        ) from error


def _configure_sqlite(engine: Engine, *, foreign_keys: bool, durable: bool) -> None:
    """Begin transactions here, since Python's driver begins them too late."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        # Not NORMAL: an intended move must be on disk before it is sent to Slurm.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def on_begin(tx: Connection) -> None:
        read_only = tx.get_execution_options().get(_READ_ONLY, False)
        if tx.info.get(_READ_ONLY) is not read_only:
            tx.exec_driver_sql(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
            tx.info[_READ_ONLY] = read_only
        # IMMEDIATE takes the write lock now: a reader that turns writer cannot wait for it.
        tx.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def describe_database(url: URL) -> str:
    """Describe the database in words that an admin knows, without credentials."""
    if url.get_backend_name() == _SQLITE:
        return f"the database {url.database}"
    host = url.host or url.query.get("host") or "the local socket"
    return f"the database {url.database} on {host}"


@contextmanager
def _translate_errors(url: URL) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise StoreError(
            f"{describe_database(url)} refused a row: {_format_error(error, url)}"
        ) from error
    except DatabaseError as error:
        if type(error) not in {OperationalError, DatabaseError}:
            raise
        raise build_unavailable_error(url, error) from error
    except InterfaceError as error:
        raise build_unavailable_error(url, error) from error
    except PoolTimeout as error:
        reason = "all connections are in use: there are too many requests at once; try again later"
        raise StoreUnavailable(f"cannot use {describe_database(url)}: {reason}") from error


def build_unavailable_error(url: URL, error: DBAPIError) -> StoreUnavailable:
    reason = _explain_unusable_file(url) or _format_error(error, url)
    return StoreUnavailable(f"cannot use {describe_database(url)}: {reason}")


def _explain_unusable_file(url: URL) -> str:
    """Explain why a SQLite file's place is unusable; empty: no fault is found.

    SQLite itself says only "unable to open".
    """
    if url.get_backend_name() != _SQLITE:
        return ""
    file = Path(url.database or "").absolute()
    folder = file.parent
    if not folder.is_dir():
        return f"the directory {folder} does not exist"
    if not _can_access(folder, os.W_OK | os.X_OK):
        return f"the directory {folder} is not writable{_describe_owner(folder)}"
    if file.exists() and not _can_access(file, os.R_OK | os.W_OK):
        return "the file is not writable"
    return ""


def _describe_owner(folder: Path) -> str:
    """Describe the folder's owner; empty for the caller's own folder or an unknown owner.

    Someone who types one of the service's commands as themselves learns which account must run it.
    """
    owner = folder.stat().st_uid
    if owner == os.geteuid():
        return ""
    try:
        return f": it is {pwd.getpwuid(owner).pw_name}'s, so run this as that account"
    except KeyError:
        return ""


def _can_access(path: Path, access: int) -> bool:
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)


def _format_error(error: DBAPIError, url: URL) -> str:
    text = " ".join(str(error.orig).split())
    return text.replace(url.password, "***") if url.password else text


def _serialize_json(value: object) -> str:
    # NaN is no JSON, and PostgreSQL refuses it. Refused here, it is refused by both databases.
    return json.dumps(value, allow_nan=False, default=_to_plain_value, separators=(",", ":"))


def _to_plain_value(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")


__all__ = ["BUSY_S", "Store", "Transaction"]
