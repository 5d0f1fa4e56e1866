"""Parquet files in Mirage's trace schema (docs/traces.md), a batch of rows at a time."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirage.domain.job import Job, JobId
from mirage.errors import InputError, UnknownFormat
from mirage.slurm.commands.sacct_record import NO_NODES, Record, parse_state
from mirage.traces.formats.trace_row import Outcome, RowRefused, attempt, integer

_INTS = ("submit", "eligible", "start", "end", "timelimit_s", "nodes", "gpus", "cpus")
_TEXTS = ("job_id", "user", "account", "partition", "qos", "state", "exit_code")
REQUIRED = (*_TEXTS, *_INTS)
_OPTIONAL_INTS = ("runtime_s", "memory_mib")
_OPTIONAL_TEXTS = ("name",)
_BATCH_ROWS = 4096

Row = dict[str, Any]
"""A foreign row: values of the types that `_typed` has made sure of."""


class ParquetTrace:
    """The columns of a file, and its rows by number from 1."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path} is truncated or damaged: it begins as parquet, but its end is not "
                "that of a complete parquet file"
            ) from error
        names = self._file.schema_arrow.names
        if missing := [name for name in REQUIRED if name not in names]:
            raise UnknownFormat(
                f"{path} is parquet without the trace column(s) {', '.join(missing)}; "
                f"it has {', '.join(names[:20]) or 'none'}"
            )
        self._columns = [n for n in (*REQUIRED, *_OPTIONAL_INTS, *_OPTIONAL_TEXTS) if n in names]
        self._check_types()
        self.total: int = self._file.metadata.num_rows

    def read(self) -> Iterator[tuple[int, Outcome]]:
        number = 0
        for batch in self._batches():
            columns = [_values(batch.column(name)) for name in self._columns]
            for values in zip(*columns, strict=True):
                number += 1
                yield number, attempt(_record, dict(zip(self._columns, values, strict=True)))

    def close(self) -> None:
        self._file.close()

    def _batches(self) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(batch_size=_BATCH_ROWS, columns=self._columns)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._path} is damaged: {_first_line(error)}") from error

    def _check_types(self) -> None:
        for name in self._columns:
            kind = self._file.schema_arrow.field(name).type
            if not _fits(name, kind):
                wanted = "text" if name in (*_TEXTS, *_OPTIONAL_TEXTS) else "whole numbers"
                raise UnknownFormat(f"{self._path}: column {name} holds {kind}, not {wanted}")


def _values(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _fits(name: str, kind: Any) -> bool:
    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_dictionary(kind):
        kind = kind.value_type
    if name in (*_TEXTS, *_OPTIONAL_TEXTS):
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind))
    # pandas turns a column of whole numbers with gaps into floats.
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind))


def _record(row: Row) -> Record:
    submit = _int(row, "submit")
    if submit is None:
        raise RowRefused("no submit time")
    if (_int(row, "runtime_s") or 0) < 0:
        raise RowRefused("negative run time")
    if not (job_id := _text(row, "job_id")):
        raise RowRefused("no job id")
    nodes = _int(row, "nodes")
    job = Job(
        job_id=JobId(integer(job_id, "job id")),
        submit=submit,
        state=parse_state(_text(row, "state")),
        user=_text(row, "user"),
        account=_text(row, "account"),
        partition=_text(row, "partition"),
        qos=_text(row, "qos"),
        name=_text(row, "name"),
        eligible=_int(row, "eligible"),
        start=_int(row, "start"),
        end=_int(row, "end"),
        time_limit_s=_int(row, "timelimit_s"),
        nodes=1 if nodes is None else nodes,
        cpus=_int(row, "cpus") or 0,
        gpus=_int(row, "gpus") or 0,
        memory_mib=_int(row, "memory_mib") or 0,
        exit_code=_text(row, "exit_code"),
    )
    return Record(job, (NO_NODES,) if nodes is None else ())


def _int(row: Row, name: str) -> int | None:
    value = row.get(name)
    if type(value) is int:  # nearly all are
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):  # pandas' null
        return None
    return integer(value, name)


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if type(value) is str:
        return value
    return "" if value is None else str(value)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
