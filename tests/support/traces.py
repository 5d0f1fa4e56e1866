"""What the tests of workload files share."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mirage.domain.job import Job
from mirage.history.formats.trace_file import TraceFile
from mirage.simulator.types import SimJob


def read_jobs(trace: TraceFile) -> list[Job]:
    """Read all jobs of the file, and close it."""
    with trace:
        return [job for batch in trace.iter_batches() for job in batch]


def write_parquet_trace(path: Path, jobs: list[SimJob]) -> Path:
    """Write a Parquet file, as `mirage ingest` reads it, of jobs that started at once."""
    ints = {
        "submit": [j.submit for j in jobs],
        "eligible": [j.submit for j in jobs],
        "start": [j.submit for j in jobs],
        "end": [j.submit + max(1, min(j.run_s, j.time_limit_s)) for j in jobs],
        "timelimit_s": [j.time_limit_s for j in jobs],
        "nodes": [j.nodes for j in jobs],
        "gpus": [0] * len(jobs),
        "cpus": [1] * len(jobs),
    }
    texts = {n: [""] * len(jobs) for n in ("account", "partition", "qos", "exit_code")}
    texts |= {
        "job_id": [str(j.job_id) for j in jobs],
        "user": [j.user for j in jobs],
        "state": ["COMPLETED"] * len(jobs),
    }
    pq.write_table(pa.table(ints | texts), path)
    return path
