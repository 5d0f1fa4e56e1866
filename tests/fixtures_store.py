"""Databases for tests: each test gets a fresh one, on SQLite and on a real PostgreSQL.

They are for every room (tests/conftest.py). PostgreSQL is a private server from the Debian
packages, without TCP, in a directory of its own; it lives as long as the test run.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from mirage.store.database import schema_migrations
from mirage.store.database.engine import Store
from mirage.store.database.tables import metadata
from tests import needed
from tests.support.paths import MIGRATIONS

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]

_START_S = 30.0
_STOP_S = 15.0
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server; trust authentication over its unix socket."""

    socket_dir: Path

    def url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.socket_dir}"

    def run(self, sql: str) -> None:
        conninfo = f"host={self.socket_dir} user=postgres dbname=postgres"
        with closing(psycopg.connect(conninfo, autocommit=True)) as connection:
            connection.execute(sql.encode())

    def new_database(self) -> str:
        name = f"t{next(_numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE template0")
        return name


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    binaries = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="mirage-pg-", dir="/tmp"))  # a socket's path is short
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = [f"{binaries}/initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync"]
    log = (folder / "log").open("wb")
    subprocess.run(
        [*initdb, "--locale=C", "--encoding=UTF8"],
        user=user,
        cwd=folder,
        check=True,
        stdout=log,
        stderr=log,
    )
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
    settings |= {"synchronous_commit": "off", "full_page_writes": "off"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    process = subprocess.Popen(
        [binaries / "postgres", "-D", data, *options], user=user, cwd=folder, stdout=log, stderr=log
    )
    try:
        server = PostgresServer(folder)
        _wait(server, process)
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # the "fast" shutdown
        process.wait(_STOP_S)
        log.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "mirage.db"
    schema_migrations.upgrade_schema(f"sqlite:///{path}", MIGRATIONS)
    return path


@pytest.fixture(scope="session")
def postgres_migrated(postgres_server: PostgresServer) -> str:
    """The URL of the one migrated database; making one for each test takes half a second."""
    url = postgres_server.url(postgres_server.new_database())
    schema_migrations.upgrade_schema(url, MIGRATIONS)
    return url


@pytest.fixture(params=BOTH)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.new_database()
    yield server.url(name)
    server.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the schema of today and nothing in it; leave the schema as it is."""
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        shutil.copy(template, tmp_path / "mirage.db")
        return f"sqlite:///{tmp_path}/mirage.db"
    url: str = request.getfixturevalue("postgres_migrated")
    _empty(url)
    return url


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with closing(Store(database_url)) as opened:
        yield opened


def _empty(url: str) -> None:
    names = ", ".join(table.name for table in metadata.sorted_tables)
    with closing(Store(url)) as store, store.begin() as tx:
        # A transaction that a test left open would make this wait for ever.
        tx.execute(text("SET LOCAL lock_timeout = '10s'"))
        tx.execute(text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))


def _binaries() -> Path:
    found = _installed()
    if found is None:
        needed.absent("PostgreSQL is not in /usr/lib/postgresql")
    return found


def _installed() -> Path | None:
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((p.parent for p in found), key=lambda p: int(p.parent.name), default=None)


def _wait(server: PostgresServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return server.run("SELECT 1")
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                log = (server.socket_dir / "log").read_text(errors="replace")
                pytest.fail(f"PostgreSQL did not start:\n{log}")
            time.sleep(0.05)
