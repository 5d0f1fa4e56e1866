"""What the tests of workload files share."""

from mirage.domain.job import Job
from mirage.traces.formats.trace_file import TraceFile


def read_jobs(trace: TraceFile) -> list[Job]:
    """Read all jobs of the file, and close it."""
    with trace:
        return [job for batch in trace.iter_batches() for job in batch]
