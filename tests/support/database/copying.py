"""Databases that are copied: rows of every table, and what a copy has of them."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from sqlalchemy import select

from mirage.database.copying import database_copy
from mirage.database.copying.database_copy import CopyReport, CopySteps
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import metadata
from tests.support.paths import MIGRATIONS


def copy_url(
    source: str,
    target: str,
    *,
    skip_bad_rows: bool = False,
    show_steps: Callable[[int], None] = lambda _steps: None,
) -> CopyReport:
    steps = CopySteps(
        upgrade_target=lambda: schema_migrations.upgrade_schema(target, MIGRATIONS),
        show_total=lambda _steps: None,
        show_steps=show_steps,
    )
    with closing(Store(source)) as one, closing(Store(target)) as other:
        return database_copy.copy_database(
            one, other, steps, now=int(time.time()), skip_bad_rows=skip_bad_rows
        )


def read_rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Read all rows of all tables, as the service reads them, in an order of their own."""
    with closing(Store(url)) as store, store.read() as tx:
        return {
            table.name: sorted((tuple(row) for row in tx.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }
