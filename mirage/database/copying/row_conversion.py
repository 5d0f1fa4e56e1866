"""Reads rows as they are stored, and converts them to what SQLite and PostgreSQL both store.

SQLite stores any value in any column, and text that is no valid UTF-8. PostgreSQL does neither, and
it also refuses the character NUL in text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Float,
    LargeBinary,
    Select,
    Table,
    TableClause,
    Text,
    cast,
    column,
    select,
    table,
)

from mirage.database.schema.engine import Transaction
from mirage.domain.sanitize import escape_unprintable

REPLACEMENT = "\ufffd"
"""The character that stands in the place of each one that PostgreSQL refuses."""

DIGEST_MODULUS = 2**64

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_ROWS_AT_ONCE = 200
"""Rows that the database's driver holds; a row may be megabytes."""
_LONGEST_NAME = 60


class _UnfitValue(ValueError):
    """A value that its column's type has no place for."""


@dataclass(frozen=True, slots=True)
class ConvertedRow:
    values: tuple[Any, ...]
    """In the order of the table's columns."""
    replaced_columns: tuple[str, ...] = ()
    """Columns whose text had characters replaced."""
    fault: str = ""
    """Why no database may store the row; empty: there is no such reason. The values are then not
    converted."""

    def compute_digest(self) -> int:
        """Return a number below DIGEST_MODULUS that is the same for the same row in any
        database."""
        text = repr(self.values).encode("utf-8", "backslashreplace")
        return int.from_bytes(blake2b(text, digest_size=8).digest())


class RowReader:
    """Reads one table."""

    def __init__(self, stored_table: Table) -> None:
        self.table = stored_table
        self._names = [column.name for column in stored_table.columns]
        self._converters = [_get_converter(column.type) for column in stored_table.columns]

    def read_rows(self, tx: Transaction, skip: int = 0) -> Iterator[ConvertedRow]:
        """Yield the rows in the order of the primary key, without the first `skip` rows."""
        _accept_any_text(tx)
        query = self._build_query().offset(skip) if skip else self._build_query()
        rows = tx.execute(query.execution_options(yield_per=_ROWS_AT_ONCE))
        for row in rows:
            yield self._convert(tuple(row))

    def describe_row(self, row: ConvertedRow) -> str:
        """Name the row by its table and primary key."""
        keys = {column.name for column in self.table.primary_key}
        key = ", ".join(
            f"{name} {escape_unprintable(str(value))[:_LONGEST_NAME]}"
            for name, value in zip(self._names, row.values, strict=True)
            if name in keys
        )
        return f"{self.table.name} ({key})"

    def to_parameters(self, row: ConvertedRow) -> dict[str, Any]:
        return dict(zip(self._names, row.values, strict=True))

    def _build_query(self) -> Select[Any]:
        stored = build_untyped_table(self.table)
        values = [
            cast(stored.c[c.name], Text).label(c.name)
            if isinstance(c.type, JSON)
            else stored.c[c.name]
            for c in self.table.columns
        ]
        query: Select[Any] = select(*values)
        return query.order_by(*(stored.c[key.name] for key in self.table.primary_key))

    def _convert(self, raw: tuple[Any, ...]) -> ConvertedRow:
        values: list[Any] = []
        replaced: list[str] = []
        for name, value, convert in zip(self._names, raw, self._converters, strict=True):
            if value is None:
                values.append(None)
                continue
            try:
                converted = convert(value)
            except _UnfitValue as fault:
                return ConvertedRow(raw, fault=f"{name} {fault}")
            if isinstance(value, str) and converted is not value:
                replaced.append(name)
            values.append(converted)
        return ConvertedRow(tuple(values), tuple(replaced))


def build_untyped_table(stored_table: Table) -> TableClause:
    """Build the same table without types, so that SQLAlchemy converts none of its values."""
    return table(stored_table.name, *(column(c.name) for c in stored_table.columns))


def _accept_any_text(tx: Transaction) -> None:
    """Have SQLite's driver pass text on that is no valid UTF-8, where it would raise an error."""
    if tx.dialect.name == "sqlite":
        connection: Any = tx.connection.driver_connection
        connection.text_factory = _decode


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _convert_text(value: object) -> str:
    if not isinstance(value, str):
        raise _UnfitValue("is not text")
    return _REFUSED.sub(REPLACEMENT, value) if _REFUSED.search(value) else value


def _convert_boolean(value: object) -> bool:
    if value not in {0, 1}:
        raise _UnfitValue("is neither true nor false")
    return bool(value)


def _convert_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnfitValue("is not a whole number")
    return value


def _convert_float(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _UnfitValue("is not a number")
    return float(value)


def _convert_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise _UnfitValue("is not bytes")
    return value


_CONVERTERS: dict[type, Callable[[object], Any]] = {
    JSON: _convert_text,
    Text: _convert_text,
    Boolean: _convert_boolean,
    BigInteger: _convert_integer,
    Float: _convert_float,
    LargeBinary: _convert_bytes,
}


def _get_converter(kind: object) -> Callable[[object], Any]:
    """Raises KeyError for a type that no table had when this was written."""
    return _CONVERTERS[type(kind)]
