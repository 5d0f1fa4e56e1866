"""Runs the schema's migrations through Alembic, from wherever they are installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from mirage.database.schema import (  # noqa: F401 - metadata has their tables too
    learning_tables,
    read_model_tables,
)
from mirage.database.schema.engine import (
    build_newer_schema_error,
    build_unavailable_error,
    describe_database,
    make_engine,
    parse_url,
    read_schema_version,
)
from mirage.database.schema.tables import SCHEMA
from mirage.errors import StoreUnavailable


def upgrade_schema(url: str, migrations_dir: Path, revision: str = "head") -> None:
    """Upgrade the database to the newest schema, or create it. A failure changes nothing."""
    with _open_migration(url, migrations_dir) as config:
        command.upgrade(config, revision)


@contextmanager
def _open_migration(url: str, migrations_dir: Path) -> Iterator[Config]:
    """Open a configuration that holds a connection in a write transaction."""
    parsed = parse_url(url)
    engine = make_engine(parsed, foreign_keys=False)
    config = _build_config(migrations_dir)
    try:
        with engine.connect() as connection, connection.begin():
            _refuse_newer_schema(connection, describe_database(parsed))
            config.attributes["connection"] = connection
            yield config
    except DBAPIError as error:
        raise build_unavailable_error(parsed, error) from error
    except CommandError as error:
        raise StoreUnavailable(f"cannot upgrade {describe_database(parsed)}: {error}") from error
    finally:
        engine.dispose()


def _refuse_newer_schema(connection: Connection, where: str) -> None:
    version = read_schema_version(connection)
    if version is not None and version > SCHEMA:
        raise build_newer_schema_error(where, version)


def _build_config(migrations_dir: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
