"""Parquet files in Mirage's trace schema (docs/reference/traces.md), a batch of rows at a time."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirage.domain.job import Job, JobId, place_instants
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats.trace_row import Outcome, RowRefused, parse_integer, try_parse
from mirage.slurm.commands.sacct_record import NO_NODES, Record, parse_state

_INTS = ("submit", "eligible", "start", "end", "timelimit_s", "nodes", "gpus", "cpus")
_TEXTS = ("job_id", "user", "account", "partition", "qos", "state", "exit_code")
REQUIRED = (*_TEXTS, *_INTS)
_OPTIONAL_INTS = ("runtime_s", "memory_mib")
_OPTIONAL_TEXTS = ("name",)
_GPUS = "gpus"
_BATCH_ROWS = 4096
_SUSPECT_MARK = "_suspect"
"""The end of the flags `dep_suspect` and `userlimit_suspect` (docs/reference/traces.md)."""

RawRow = dict[str, Any]
"""A row of the file, by column. `ParquetTrace` has checked the columns' types."""


class ParquetTrace:
    """The columns of a file, and its rows by number from 1."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path} is truncated or damaged: it begins as parquet, but does not end as a "
                "complete parquet file"
            ) from error
        names = self._file.schema_arrow.names
        if missing := [name for name in REQUIRED if name not in names]:
            raise UnknownFormat(
                f"{path} is parquet without the trace column(s) {', '.join(missing)}; "
                f"it has {', '.join(names[:20]) or 'none'}"
            )
        self._columns = [n for n in (*REQUIRED, *_OPTIONAL_INTS, *_OPTIONAL_TEXTS) if n in names]
        self._check_types()
        if self._has_no_gpus():
            self._columns.remove(_GPUS)
        self.total: int = self._file.metadata.num_rows

    def iter_outcomes(self) -> Iterator[tuple[int, Outcome]]:
        number = 0
        for batch in self._iter_batches():
            columns = [_convert_column(batch.column(name)) for name in self._columns]
            for values in zip(*columns, strict=True):
                number += 1
                yield (
                    number,
                    try_parse(_parse_record, dict(zip(self._columns, values, strict=True))),
                )

    def close(self) -> None:
        self._file.close()

    def _iter_batches(self) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(batch_size=_BATCH_ROWS, columns=self._columns)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._path} is damaged: {_get_first_line(error)}") from error

    def _has_no_gpus(self) -> bool:
        """Return whether no row tells of GPUs: then no job has any, as in formats without them."""
        groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
        if pa.types.is_null(self._file.schema_arrow.field(_GPUS).type):
            return True
        return all(
            column.statistics is not None and column.statistics.null_count == group.num_rows
            for group in groups
            for column in map(group.column, range(group.num_columns))
            if column.path_in_schema == _GPUS
        )

    def _check_types(self) -> None:
        for name in self._columns:
            kind = self._file.schema_arrow.field(name).type
            if not _is_fitting_type(name, kind):
                expected_kind = "text" if name in (*_TEXTS, *_OPTIONAL_TEXTS) else "whole numbers"
                raise UnknownFormat(
                    f"{self._path}: column {name} holds {kind}, not {expected_kind}"
                )


def _convert_column(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _is_fitting_type(name: str, kind: Any) -> bool:
    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_dictionary(kind):
        kind = kind.value_type
    if name in (*_TEXTS, *_OPTIONAL_TEXTS):
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind))
    # pandas turns a column of whole numbers with gaps into floats.
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind))


def _parse_record(row: RawRow) -> Record:
    submit = _get_int(row, "submit")
    if submit is None:
        raise RowRefused("no submit time")
    if (_get_int(row, "runtime_s") or 0) < 0:
        raise RowRefused("negative run time")
    if not (job_id := _get_text(row, "job_id")):
        raise RowRefused("no job id")
    nodes = _get_int(row, "nodes")
    number = JobId(parse_integer(job_id, "job id"))
    state = parse_state(_get_text(row, "state"))
    job = Job(
        job_id=number,
        submit=submit,
        state=state,
        user=_get_text(row, "user"),
        account=_get_text(row, "account"),
        partition=_get_text(row, "partition"),
        qos=_get_text(row, "qos"),
        name=_get_text(row, "name"),
        eligible=_get_int(row, "eligible"),
        **place_instants(state, _get_int(row, "start"), _get_int(row, "end")),
        time_limit_s=_get_int(row, "timelimit_s"),
        nodes=1 if nodes is None else nodes,
        cpus=_get_int(row, "cpus") or 0,
        gpus=_get_int(row, _GPUS) if _GPUS in row else 0,
        memory_mib=_get_int(row, "memory_mib") or 0,
        exit_code=_get_text(row, "exit_code"),
    )
    return Record(job, (NO_NODES,) if nodes is None else ())


def _get_int(row: RawRow, name: str) -> int | None:
    value = row.get(name)
    if type(value) is int:  # nearly all are
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):  # pandas' null
        return None
    return parse_integer(value, name)


def _get_text(row: RawRow, name: str) -> str:
    value = row.get(name)
    if type(value) is str:
        return value
    return "" if value is None else str(value)


def _get_first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def list_suspect_rows(path: Path) -> set[tuple[int, int]]:
    """Read (job id, submission) of the rows with a `*_suspect` flag: the job waited not only for
    the queue. Empty if the file has no column `flags`.

    The file must have been read as a trace before, so that it is known to be valid.
    """
    if "flags" not in pq.read_schema(path).names:
        return set()
    table = pq.read_table(path, columns=["job_id", "submit", "flags"])
    columns = (table.column(name).to_pylist() for name in ("job_id", "submit", "flags"))
    return {
        (int(job_id), int(submit))
        for job_id, submit, flags in zip(*columns, strict=True)
        if flags and any(flag.endswith(_SUSPECT_MARK) for flag in flags.split(";"))
    }
