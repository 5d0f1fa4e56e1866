"""Builds INSERT ... ON CONFLICT, which SQLAlchemy keeps in two dialects."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from mirage.database.schema.engine import Transaction
from mirage.errors import StoreError

Insert = sqlite.Insert | postgresql.Insert


def build_insert(tx: Transaction, table: Table) -> Insert:
    return build_dialect_insert(tx.dialect.name, table)


def build_dialect_insert(dialect: str, table: Table) -> Insert:
    """Build the statement without a transaction, for one that is built once and run often."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def put_row(
    tx: Transaction, table: Table, values: Mapping[str, Any], *, key: Sequence[str]
) -> None:
    """Insert the row, or set the columns named in `values` of the row that has its `key`.

    Raises StoreError if that row belongs to another cluster.
    """
    put_rows(tx, table, [values], key=key)


def put_rows(
    tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]], *, key: Sequence[str]
) -> None:
    """Insert or update many rows, which name the same columns. Raises StoreError as `put_row`."""
    if not rows:
        return
    statement = _build_upsert(tx.dialect.name, table, tuple(key), tuple(rows[0]))
    if tx.execute(statement, [dict(row) for row in rows]).rowcount < len(rows):
        raise StoreError(f"a row of {table.name} with that key belongs to another cluster")


@lru_cache(maxsize=256)
def _build_upsert(
    dialect: str, table: Table, key: tuple[str, ...], names: tuple[str, ...]
) -> Insert:
    """Build a statement and keep it, as building it costs more than running it."""
    statement = build_dialect_insert(dialect, table)
    changes = {name: statement.excluded[name] for name in names if name not in key}
    new_cluster = changes.get("cluster_id")
    is_own_row = None if new_cluster is None else table.c.cluster_id == new_cluster
    statement = statement.on_conflict_do_update(index_elements=key, set_=changes, where=is_own_row)
    # Without this option SQLAlchemy keeps the number of rows of an UPDATE or DELETE only.
    return statement.execution_options(preserve_rowcount=True)


def put_row_if_absent(
    tx: Transaction, table: Table, values: Mapping[str, Any], *, key: Sequence[str]
) -> bool:
    """Insert the row if it is absent; return whether it was."""
    statement = build_insert(tx, table).values(**values).on_conflict_do_nothing(index_elements=key)
    return tx.execute(statement.execution_options(preserve_rowcount=True)).rowcount > 0
