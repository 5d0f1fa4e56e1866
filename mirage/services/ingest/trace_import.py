"""Take the jobs of a trace file into the history of a cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mirage.store.database.engine import Store
from mirage.store.jobs import job_history
from mirage.store.operations import clusters
from mirage.traces.formats.trace_file import TraceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """read = added + updated + unchanged + refused + skipped."""

    read: int
    added: int
    updated: int
    unchanged: int
    refused: int
    skipped: int
    """Rows in order that are no jobs of their own: steps, partial executions."""
    refused_why: dict[str, int] = field(default_factory=dict)
    """Rows by reason, the commonest first."""
    skipped_why: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    """Rows that were taken, by what was assumed of them."""
    first: dict[str, int] = field(default_factory=dict)
    """The line (in parquet the row) where a reason was first met."""

    @property
    def taken(self) -> int:
        return self.added + self.updated + self.unchanged

    @property
    def useless(self) -> bool:
        """Rows were refused and none was taken: a wrong file, or one written otherwise.

        A dump of no rows, or of job steps alone, is none: an hour without jobs looks like that.
        """
        return self.refused > 0 and self.taken == 0


def import_trace(
    store: Store,
    cluster_name: str,
    trace: TraceFile,
    progress: Callable[[TraceFile], None] | None = None,
) -> ImportReport:
    """Merge the whole file, a batch a transaction; `progress` is told after each.

    What a file says twice, or has said before, changes nothing. So after a failure, which leaves
    whole batches behind, the same call again completes the work.
    """
    store.check_schema()
    counts = job_history.MergeCounts()
    for batch in trace.iter_batches():
        with store.begin() as tx:
            counts += job_history.upsert_jobs(tx, clusters.ensure_cluster(tx, cluster_name), batch)
        if progress is not None:
            progress(trace)
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
