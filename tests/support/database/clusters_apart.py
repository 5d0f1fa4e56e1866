"""Finds SQL statements about rows of clusters that name no cluster."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Engine, event

from mirage.database.schema.tables import metadata

SHARED_TABLES = frozenset({"tokens"})
"""Tables whose column cluster_id may be NULL: a token may be good for all clusters."""
TABLES = [
    table.name
    for table in metadata.sorted_tables
    if "cluster_id" in table.c and table.name not in SHARED_TABLES
]
_NAMES_TABLE = re.compile(rf"\b(?:FROM|JOIN|UPDATE)\s+({'|'.join(TABLES)})\b")
_CLUSTER = re.compile(r"\bcluster_id (?:=|!=|IN)")


@cache
def is_of_any_cluster(statement: str) -> bool:
    """Return whether the statement reads, changes or deletes rows of clusters and names none."""
    return bool(_NAMES_TABLE.search(statement)) and not _CLUSTER.search(statement)


@contextmanager
def list_statements_of_any_cluster() -> Iterator[list[str]]:
    """List the statements that run during the block, in any engine, and name no cluster."""
    statements: list[str] = []

    def on_statement(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if is_of_any_cluster(statement):
            statements.append(statement)

    event.listen(Engine, "before_cursor_execute", on_statement)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", on_statement)
