"""INSERT ... ON CONFLICT, which both databases spell alike and SQLAlchemy keeps in two dialects."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from mirage.store.engine import Transaction

Insert = sqlite.Insert | postgresql.Insert


def insert(tx: Transaction, table: Table) -> Insert:
    if tx.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def put(tx: Transaction, table: Table, values: Mapping[str, Any], *, key: Sequence[str]) -> None:
    """Insert the row, or set the columns named in `values` of the row that has its `key`."""
    put_all(tx, table, [values], key=key)


def put_all(
    tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]], *, key: Sequence[str]
) -> None:
    """The same of many rows, which name the same columns."""
    if not rows:
        return
    statement = insert(tx, table)
    changes = {name: statement.excluded[name] for name in rows[0] if name not in key}
    statement = statement.on_conflict_do_update(index_elements=key, set_=changes)
    tx.execute(statement, [dict(row) for row in rows])


def put_if_absent(
    tx: Transaction, table: Table, values: Mapping[str, Any], *, key: Sequence[str]
) -> bool:
    """Whether the row was not there."""
    statement = insert(tx, table).values(**values).on_conflict_do_nothing(index_elements=key)
    return tx.execute(statement).rowcount > 0
