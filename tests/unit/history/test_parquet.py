"""Parquet traces: the schema, what is tolerated, what is refused."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirage.domain.job import Job, JobState
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats.parquet import REQUIRED
from mirage.history.formats.trace_file import open_trace
from mirage.history.formats.trace_row import TraceFormat
from tests.support.traces import read_jobs

ROW: dict[str, Any] = {
    "job_id": "12",
    "user": "00007",
    "account": None,
    "partition": "gpu-a100",
    "qos": None,
    "state": "TIMEOUT",
    "submit": 1700000000,
    "eligible": None,
    "start": 1700000100,
    "end": 1700003700,
    "timelimit_s": 3600,
    "nodes": 2,
    "gpus": 6,
    "cpus": None,
    "exit_code": "0:0",
}


def table(*rows: dict[str, Any]) -> Any:
    return pa.Table.from_pylist([ROW | row for row in rows])


def saved(tmp_path: Path, content: Any) -> Path:
    pq.write_table(content, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_a_row_becomes_a_job(tmp_path: Path) -> None:
    trace = open_trace(saved(tmp_path, table({"name": "dimer", "flags": "a;b", "extra": 1})))
    assert (trace.format, trace.total) == (TraceFormat.PARQUET, 1)
    (job,) = read_jobs(trace)
    assert job == Job(
        job_id=job.job_id,
        submit=1700000000,
        state=JobState.TIMEOUT,
        user="00007",
        partition="gpu-a100",
        name="dimer",
        start=1700000100,
        end=1700003700,
        time_limit_s=3600,
        nodes=2,
        gpus=6,
        exit_code="0:0",
    )
    assert trace.share == 1.0


def test_name_runtime_and_flags_may_be_absent(tmp_path: Path) -> None:
    assert set(ROW) == set(REQUIRED)
    assert len(read_jobs(open_trace(saved(tmp_path, table({}))))) == 1


def test_what_pandas_and_duckdb_make_of_the_columns_is_read(tmp_path: Path) -> None:
    at = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    content = table({"job_id": 12, "submit": at, "start": float("nan"), "nodes": 2.0})
    content = content.set_column(5, "state", content["state"].dictionary_encode())
    (job,) = read_jobs(open_trace(saved(tmp_path, content)))
    assert (job.job_id, job.submit, job.start, job.nodes) == (12, 1700000000, None, 2)


def test_null_gpus_are_not_known_and_a_bad_count_costs_its_row_alone(tmp_path: Path) -> None:
    gpus = {"1": None, "2": 0, "3": -1, "4": 4}
    rows = [{"job_id": job, "gpus": count} for job, count in gpus.items()]
    trace = open_trace(saved(tmp_path, table(*rows)))
    assert [(job.job_id, job.gpus) for job in read_jobs(trace)] == [(1, None), (2, 0), (4, 4)]
    assert trace.tally.refused == {"gpus is out of range": 1}
    nothing = table(rows[0], {"job_id": "2", "gpus": None})
    assert [job.gpus for job in read_jobs(open_trace(saved(tmp_path, nothing)))] == [0, 0]
    floats = table(*[{**row, "gpus": float(row["gpus"] or "nan")} for row in rows[::3]])
    assert [job.gpus for job in read_jobs(open_trace(saved(tmp_path, floats)))] == [None, 4]


def test_missing_columns_are_named(tmp_path: Path) -> None:
    content = table({"walltime": 3}).drop_columns(["submit", "timelimit_s"])
    with pytest.raises(UnknownFormat) as caught:
        open_trace(saved(tmp_path, content))
    assert "without the trace column(s) submit, timelimit_s" in str(caught.value)
    assert "it has job_id" in str(caught.value)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="column submit holds string, not whole numbers"):
        open_trace(saved(tmp_path, table({"submit": "yesterday"})))


def test_rows_that_make_no_sense_are_refused_by_row_number(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"job_id": "1"},
        {"job_id": "2", "runtime_s": -5},
        {"job_id": "3", "end": 1700000050},
        {"job_id": "4", "start": 1600000000},
        {"job_id": None},
        {"job_id": "five"},
        {"job_id": "6", "submit": None},
        {"job_id": "7", "state": None},
        {"job_id": "1"},
    ]
    trace = open_trace(saved(tmp_path, table(*[{"runtime_s": 1, **row} for row in rows])))
    assert [job.job_id for job in read_jobs(trace)] == [1]
    assert trace.tally.refused == {
        "negative run time": 1,
        "end before start": 1,
        "start before submit": 1,
        "no job id": 1,
        "job id is not a number": 1,
        "no submit time": 1,
        "no state": 1,
        "same job id and submit time as another row": 1,
    }
    assert trace.tally.first["negative run time"] == 2


def test_text_that_postgresql_does_not_take_is_cleaned(tmp_path: Path) -> None:
    (job,) = read_jobs(open_trace(saved(tmp_path, table({"name": "a\0b", "user": "x\0"}))))
    assert (job.name, job.user) == ("ab", "x")


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_truncated_file_is_told(tmp_path: Path, share: float) -> None:
    path = saved(tmp_path, table(*[{"job_id": str(i)} for i in range(1, 500)]))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match=r"t\.parquet is truncated or damaged: it begins as"):
        open_trace(path)


def test_text_called_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("JobID|Submit|State\n")
    with pytest.raises(UnknownFormat, match="is not parquet"):
        open_trace(tmp_path / "t.parquet", TraceFormat.PARQUET)
