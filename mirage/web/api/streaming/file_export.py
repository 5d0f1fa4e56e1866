"""Sends a whole list as a file: CSV for a spreadsheet, Parquet for a notebook. Rows are those of
the pages. The list is read and sent in parts, each in a short transaction of its own."""

import csv
import io
import json
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from fastapi import Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mirage.database.schema.engine import Transaction
from mirage.web.api.streaming.slow_clients import enforce_read_pace
from mirage.web.shared import quota
from mirage.web.shared.context import ApiContext

PART = 2000
"""The number of rows that are read at a time."""

ExportRow = TypeVar("ExportRow")


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


MEDIA_TYPES = {
    Format.CSV: "text/csv; charset=utf-8; header=present",
    Format.PARQUET: "application/vnd.apache.parquet",
}

EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            MEDIA_TYPES[Format.PARQUET]: {"schema": {"type": "string", "format": "binary"}},
        }
    }
}
"""The response of a list that is sent as a file, for the OpenAPI document."""


def _choose_format(
    request: Request,
    query_format: Annotated[
        Format | None,
        Query(
            alias="format",
            description="csv and parquet: all rows from the cursor on, whatever `limit` says. "
            "Default: what the header `Accept` names, else json.",
        ),
    ] = None,
) -> Format:
    if query_format is not None:
        return query_format
    weights = dict(map(_parse_media_range, request.headers.get("accept", "").split(",")))
    format_weights = {
        file_format: weights.get(kind.partition(";")[0], 0.0)
        for file_format, kind in MEDIA_TYPES.items()
    }
    best = max(format_weights, key=lambda file_format: format_weights[file_format])
    return best if format_weights[best] > weights.get("application/json", 0.0) else Format.JSON


def _parse_media_range(part: str) -> tuple[str, float]:
    """Parse one media type of the header Accept and its weight (RFC 9110, 12.5.1)."""
    kind, *parameters = (word.strip() for word in part.split(";"))
    weight = next((word[2:] for word in parameters if word.lower().startswith("q=")), "1")
    try:
        return kind.lower(), float(weight)
    except ValueError:
        return kind.lower(), 0.0


AsFormat = Annotated[Format, Depends(_choose_format)]


def export_rows(
    request: Request,
    file_format: Format,
    model: type[BaseModel],
    read_rows: Callable[[Transaction, ExportRow | None, int], Sequence[ExportRow]],
    view: Callable[[Transaction, Sequence[ExportRow]], Sequence[BaseModel]],
) -> StreamingResponse:
    """Send all rows as a file of the format.

    `read_rows` reads up to so many rows after a row (None: from the first); `view` serializes them.
    `model` is the wire type, whose fields are the columns.
    """
    context: ApiContext = request.app.state.context
    columns = list(list_columns(model))
    parts = _read_parts(context, read_rows, view)
    content = (
        _write_csv(columns, parts) if file_format is Format.CSV else _write_parquet(columns, parts)
    )
    name = request.url.path.rpartition("/")[2]
    headers = {"Content-Disposition": f'attachment; filename="mirage-{name}.{file_format}"'}
    return _ExportResponse(request, content, headers=headers, media_type=MEDIA_TYPES[file_format])


class _ExportResponse(StreamingResponse):
    """A response that ends early if the reader is too slow, or takes too long in all."""

    def __init__(self, request: Request, content: Iterator[bytes], **more: Any) -> None:
        super().__init__(content, **more)
        self._quota, self._holder = quota.get_quota(request), quota.get_quota_holder(request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._quota.exports.acquire_slot(self._holder):
            async with enforce_read_pace(scope, send, total_s=self._quota.export_s) as paced_send:
                await super().__call__(scope, receive, paced_send)


def _read_parts(
    context: ApiContext,
    read_rows: Callable[[Transaction, ExportRow | None, int], Sequence[ExportRow]],
    view: Callable[[Transaction, Sequence[ExportRow]], Sequence[BaseModel]],
) -> Iterator[Sequence[BaseModel]]:
    last: ExportRow | None = None
    while True:
        with context.store.read() as tx:
            rows = read_rows(tx, last, PART)
            answers = view(tx, rows)
        yield answers
        if len(rows) < PART:
            return
        last = rows[-1]


class ColumnKind(StrEnum):
    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    INSTANT = "instant"
    TREE = "tree"
    """A nested value, which is written as JSON."""


@dataclass(frozen=True, slots=True)
class ExportColumn:
    name: str
    path: tuple[str, ...]
    kind: ColumnKind

    def get_value(self, row: BaseModel) -> Any:
        value: Any = row
        for step in self.path:
            value = None if value is None else getattr(value, step)
        if self.kind is ColumnKind.TREE and value is not None:
            return json.dumps(value, sort_keys=True, separators=(",", ":"))
        return value


def list_columns(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[ExportColumn]:
    """Yield the columns of a wire type. A field of a nested type is named `<field>_<nested
    field>`."""
    for name, field in model.model_fields.items():
        field_type = _strip_none(field.annotation)
        column_path = (*path, name)
        if isinstance(field_type, type) and issubclass(field_type, BaseModel):
            yield from list_columns(field_type, column_path)
        else:
            yield ExportColumn("_".join(column_path), column_path, _infer_kind(field_type))
    for name, computed in model.model_computed_fields.items():
        column_path = (*path, name)
        yield ExportColumn("_".join(column_path), column_path, _infer_kind(computed.return_type))


def _strip_none(annotation: Any) -> Any:
    if get_origin(annotation) not in {Union, types.UnionType}:
        return annotation
    (inner_type,) = (option for option in get_args(annotation) if option is not type(None))
    return inner_type


def _infer_kind(field_type: Any) -> ColumnKind:
    by_type = (
        (bool, ColumnKind.BOOL),
        (int, ColumnKind.INT),
        (float, ColumnKind.FLOAT),
        (str, ColumnKind.TEXT),
    )
    for base_type, kind in (*by_type, (datetime, ColumnKind.INSTANT)):
        if isinstance(field_type, type) and issubclass(field_type, base_type):
            return kind
    return ColumnKind.TREE


_BEFORE_FORMULA = re.compile(r"(?<![\s\";|])[\s\";|]*+(?=[=+\-@＝＋－＠])")  # noqa: RUF001
"""Blanks, quotes and separators in any number, and after them a character that begins a formula.
The pattern reads a text of such characters only once."""
_SEPARATORS = ";|\t\r\n"
"""In many countries a spreadsheet's separator is `;`. There, it ignores our commas and quotes, and
cuts a text at each `;` and end of line."""


def _escape_formula(match: re.Match[str]) -> str:
    """Put an apostrophe where a cell begins, so that its formula becomes text."""
    run = match[0]
    begins = max(run.rfind(separator) for separator in _SEPARATORS) + 1
    in_a_cell = begins == 0 and match.start() > 0
    return run if in_a_cell else f"{run[:begins]}'{run[begins:]}"


def _write_csv(
    columns: Sequence[ExportColumn], parts: Iterator[Sequence[BaseModel]]
) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.name for column in columns])
    for part in parts:
        writer.writerows([[_format_cell(column, row) for column in columns] for row in part])
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()


def _format_cell(column: ExportColumn, row: BaseModel) -> object:
    value = column.get_value(row)
    match column.kind:
        case ColumnKind.BOOL:
            return None if value is None else str(value).lower()
        case ColumnKind.INSTANT:
            return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case ColumnKind.TEXT if value is not None:
            # A job's name is its user's.
            return _BEFORE_FORMULA.sub(_escape_formula, value)
        case ColumnKind.TREE if value is not None:
            # The same text within JSON, which stays the same JSON.
            return str(value).replace(";", "\\u003b").replace("|", "\\u007c")
    return value


class _Sink(io.RawIOBase):
    """A buffer that keeps written bytes until they are taken."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._chunks.append(bytes(data))
        self._position += len(self._chunks[-1])
        return len(self._chunks[-1])

    def take_bytes(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)


def _write_parquet(
    columns: Sequence[ExportColumn], parts: Iterator[Sequence[BaseModel]]
) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415 - a quarter of a second, which most never need
    from pyarrow import parquet  # noqa: PLC0415

    arrow = {
        ColumnKind.TEXT: pa.string(),
        ColumnKind.TREE: pa.string(),
        ColumnKind.INT: pa.int64(),
        ColumnKind.FLOAT: pa.float64(),
        ColumnKind.BOOL: pa.bool_(),
        ColumnKind.INSTANT: pa.timestamp("ms", tz="UTC"),
    }
    schema = pa.schema([(column.name, arrow[column.kind]) for column in columns])
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        for part in parts:
            values = {column.name: [column.get_value(row) for row in part] for column in columns}
            writer.write_table(pa.Table.from_pydict(values, schema))
            yield sink.take_bytes()
    yield sink.take_bytes()
