"""SQLAlchemy compiles each statement once in a test process, not once for each test's database.

Its cache belongs to an engine and is keyed by the dialect object, and most tests have a database of
their own. Compiling took a third of the CPU time of tests/unit/services.
"""

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

_COMPILED: dict[Any, Any] = {}


class SharedDialect(SQLiteDialect_pysqlite):
    """SQLite's dialect; all instances are equal, since one process has one library."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedDialect)

    def __hash__(self) -> int:
        return hash(SharedDialect)


def share_compiled_statements() -> None:
    """Let each SQLite engine that is made from now on use the one cache. For a whole process."""
    registry.register("sqlite.pysqlite", __name__, SharedDialect.__name__)
    event.listen(Engine, "engine_connect", _use_shared_cache)


def _use_shared_cache(connection: Connection) -> None:
    if isinstance(connection.dialect, SharedDialect):
        connection.execution_options(compiled_cache=_COMPILED)
