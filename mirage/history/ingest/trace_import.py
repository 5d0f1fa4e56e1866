"""Reads the jobs of a trace file into the history of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.history.formats.trace_file import TraceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Counts of rows: read = added + updated + unchanged + refused + skipped."""

    read: int
    added: int
    updated: int
    unchanged: int
    refused: int
    skipped: int
    """Valid rows that are not whole jobs: steps, partial executions."""
    refused_why: dict[str, int] = field(default_factory=dict)
    """Refused rows by reason, the commonest first."""
    skipped_why: dict[str, int] = field(default_factory=dict)
    """Skipped rows by reason, the commonest first."""
    assumed: dict[str, int] = field(default_factory=dict)
    """Imported rows by what was assumed about them."""
    first: dict[str, int] = field(default_factory=dict)
    """The line (in Parquet the row) where each reason first occurred."""

    @property
    def imported(self) -> int:
        return self.added + self.updated + self.unchanged

    @property
    def is_useless(self) -> bool:
        """Return whether rows were refused and none was imported: it is probably a wrong file.

        A dump without rows, or with job steps only, is not useless: an hour without jobs has none.
        """
        return self.refused > 0 and self.imported == 0


def import_trace(
    store: Store,
    cluster_name: str,
    trace: TraceFile,
    on_progress: Callable[[TraceFile], None] | None = None,
) -> ImportReport:
    """Merge the whole file into the history, with one transaction for each batch.

    `on_progress` is called after each batch. A job that is stored already is not stored twice. So
    if an import fails after some batches, the same call completes it.
    """
    store.check_schema()
    counts = job_history.MergeCounts()
    for batch in trace.iter_batches():
        with store.begin() as tx:
            counts += job_history.upsert_jobs(tx, clusters.ensure_cluster(tx, cluster_name), batch)
        if on_progress is not None:
            on_progress(trace)
    tally = trace.tally
    return ImportReport(
        read=tally.read,
        added=counts.added,
        updated=counts.updated,
        unchanged=counts.unchanged,
        refused=tally.refused.total(),
        skipped=tally.skipped.total(),
        refused_why=dict(tally.refused.most_common()),
        skipped_why=dict(tally.skipped.most_common()),
        assumed=dict(tally.assumed.most_common()),
        first=dict(tally.first),
    )
