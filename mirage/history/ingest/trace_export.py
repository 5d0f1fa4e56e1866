"""Writes the stored jobs of a cluster to a trace file (Parquet)."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mirage.database.jobs import job_history
from mirage.database.schema.engine import Transaction
from mirage.domain.job import Job
from mirage.errors import InputError

BATCH = 20_000

_TEXTS = ("user", "account", "partition", "qos", "exit_code", "name")
_INTEGERS = ("submit", "eligible", "start", "end", "nodes", "gpus", "cpus")
_SCHEMA = pa.schema(
    [("job_id", pa.string()), ("state", pa.string()), ("timelimit_s", pa.int64())]
    + [(name, pa.string()) for name in _TEXTS]
    + [(name, pa.int64()) for name in _INTEGERS]
)


def write_history(
    tx: Transaction,
    cluster_id: int,
    path: Path,
    since: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the jobs submitted at `since` or later; return how many there are.

    The file is Parquet with the columns of docs/reference/traces.md. `on_progress` is called with
    the number of jobs of each batch. Raises InputError if `path` cannot be written.
    """
    count = 0
    try:
        with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
            for rows in job_history.iter_jobs(tx, cluster_id, since, BATCH):
                writer.write_table(_build_table(rows))
                count += len(rows)
                on_progress(len(rows))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    return count


def _build_table(rows: list[Job]) -> pa.Table:
    columns = {name: [getattr(job, name) for job in rows] for name in (*_TEXTS, *_INTEGERS)}
    columns |= {
        "job_id": [str(job.job_id) for job in rows],
        "state": [job.state.value for job in rows],
        "timelimit_s": [job.time_limit_s for job in rows],
    }
    return pa.table(columns, schema=_SCHEMA)
