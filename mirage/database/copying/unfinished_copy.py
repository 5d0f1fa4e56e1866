"""Keeps, in a database that is being filled, that it is unfinished and how far it is."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from sqlalchemy import Column, MetaData, Table, Text, column, insert, select, table, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import SCHEMA, UNFINISHED, VERSION_TABLE
from mirage.errors import InputError, StoreError

_progress = Table("unfinished_copy", MetaData(), Column("document", Text, nullable=False))
"""One row. The table is there as long as the copy is unfinished."""

PROGRESS_TABLE = _progress.name
MOST_EXAMPLES = 20
"""Rows that are named, of each table."""


@dataclass(slots=True, kw_only=True)
class TableProgress:
    """How far one table is."""

    rows_read: int = 0
    """Rows of the source, in the order of the primary key, that need not be read again."""
    rows_left_out: int = 0
    left_out_digest: int = 0
    """The sum of the digests of these rows."""
    rows_replaced: int = 0
    """Rows of which text was replaced."""
    left_out: list[str] = field(default_factory=list)
    """The first rows that were left out, each with the reason."""
    replaced: list[str] = field(default_factory=list)
    """The first rows of which text was replaced, each with the columns."""


class UnfinishedCopy:
    """The progress of a copy, as the database that is being filled has it."""

    def __init__(self, document: str) -> None:
        content = json.loads(document)
        self._document = document
        self._source: str = content["source"]
        self._schema: str = content["schema"]
        self.tables = {
            name: TableProgress(**progress) for name, progress in content["tables"].items()
        }

    @classmethod
    def begin(cls, tx: Transaction, source: str, tables: Iterable[str]) -> "UnfinishedCopy":
        """Mark the database: from now on no program uses it. `source` describes the database that
        is copied."""
        progress = {name: asdict(TableProgress()) for name in tables}
        document = json.dumps({"source": source, "schema": SCHEMA, "tables": progress})
        _progress.create(tx)
        tx.execute(insert(_progress).values(document=document))
        _set_version(tx, UNFINISHED)
        return cls(document)

    @classmethod
    def resume(cls, tx: Transaction, source: str) -> "UnfinishedCopy":
        """Read the progress of the last run. Raises InputError if it was of another source, or by
        another version of Mirage."""
        copy = cls(tx.execute(select(_progress.c.document)).scalar_one())
        if copy._source != source:
            raise InputError(
                f"the other database is an unfinished copy of {copy._source}, not of {source}: "
                "give an empty database"
            )
        if copy._schema != SCHEMA:
            raise InputError(
                f"the copy was begun with schema {copy._schema}, and the schema is {SCHEMA} by "
                "now: give an empty database"
            )
        return copy

    def lock(self, tx: Transaction) -> None:
        """Keep other copies waiting until the end of the transaction. Raises StoreError if one has
        written since."""
        stored = tx.scalar(select(_progress.c.document).with_for_update())
        if stored != self._document:
            raise StoreError("another `mirage db copy` writes to the same database: wait for it")

    def save(self, tx: Transaction) -> None:
        progress = {name: asdict(one) for name, one in self.tables.items()}
        document = json.dumps({"source": self._source, "schema": self._schema, "tables": progress})
        tx.execute(update(_progress).values(document=document))
        self._document = document

    def finish(self, tx: Transaction) -> None:
        """Take the mark away."""
        _progress.drop(tx)
        _set_version(tx, SCHEMA)


def _set_version(tx: Transaction, version: str) -> None:
    tx.execute(update(table(VERSION_TABLE, column("version_num"))).values(version_num=version))
