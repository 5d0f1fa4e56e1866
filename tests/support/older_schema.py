"""A database as an older Mirage would have it."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sqlalchemy import MetaData, Table

from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import VERSION_TABLE
from tests.support.paths import MIGRATIONS


def take_back(url: str, revision: str) -> None:
    """Make a database of today's schema one of `revision`, with the rows in what both have.

    What only the older schema has is empty, 0 or by default.
    """
    with closing(Store(url)) as store, store.begin() as tx:
        today = MetaData()
        today.reflect(tx)
        rows = {
            table.name: [dict(row) for row in tx.execute(table.select()).mappings()]
            for table in today.sorted_tables
            if table.name != VERSION_TABLE
        }
        today.drop_all(tx)
    schema_migrations.upgrade_schema(url, MIGRATIONS, revision)
    with closing(Store(url)) as store, store.begin() as tx:
        older = MetaData()
        older.reflect(tx)
        for table in older.sorted_tables:
            values = [
                {name: value for name, value in row.items() if name in table.columns}
                for row in rows.get(table.name, [])
            ]
            if values:
                tx.execute(table.insert(), [row | _fill_gaps(table, row) for row in values])


def _fill_gaps(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """What the older schema wants where today's row has nothing."""
    return {
        column.name: "" if column.type.python_type is str else 0
        for column in table.columns
        if not (column.nullable or column.server_default) and row.get(column.name) is None
    }
