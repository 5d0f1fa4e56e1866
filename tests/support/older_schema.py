"""A database as an older Mirage would have it."""

from contextlib import closing

from sqlalchemy import MetaData

from mirage.store.database import schema_migrations
from mirage.store.database.engine import Store
from mirage.store.database.tables import VERSION_TABLE
from tests.support.paths import MIGRATIONS


def take_back(url: str, revision: str) -> None:
    """Make a database of today's schema one of `revision`, with the rows in what both have.

    What only the older schema has is empty or by default.
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
            kept = rows.get(table.name, [])
            if kept:
                missing = {
                    column.name: "" if column.type.python_type is str else 0
                    for column in table.columns
                    if not (column.nullable or column.server_default)
                }
                names = table.columns.keys()
                values = [{n: v for n, v in row.items() if n in names} for row in kept]
                tx.execute(table.insert(), [missing | row for row in values])
