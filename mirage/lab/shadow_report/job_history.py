"""Loads the jobs of a shadow report from the site's history if no log is given."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mirage.config import settings as settings_file
from mirage.database.chains import handover_outcomes
from mirage.database.chains.handover_outcomes import OutcomeSpan
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.jobs import job_history
from mirage.database.operations import clusters, reports
from mirage.database.schema.engine import Store
from mirage.errors import InputError
from mirage.history.ingest.trace_export import write_history
from mirage.lab.shadow_report.handover_pairs import ReportOptions, parse_since
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.pair_options import parse_instant
from mirage.service import database_setup
from mirage.simulator.types import Params

BEFORE_S = 32 * 86400
"""Jobs of this many seconds before the window are replayed too, so that the queue has built up
and users have their usage."""
_FILE = "history.parquet"


@dataclass(frozen=True, slots=True)
class JobLog:
    path: Path
    name: str
    """The name that the report shows."""
    timezone: str | None = None
    """The zone of its local times, as it was given."""


@dataclass(frozen=True, slots=True)
class SiteHistory:
    """The service's own database and cluster."""

    name: str
    params: Params
    store: Store

    @classmethod
    def from_config(
        cls, config: Path | None, cluster: Path | None, load_params: Callable[[Path], Params]
    ) -> Self:
        """Open the site's history. `load_params` reads a cluster file.

        Raises InputError if there is no cluster file to replay jobs on.
        """
        settings = settings_file.load_settings(config)
        file = cluster or settings.cluster.file
        if file is None:
            raise InputError(
                "no cluster file is set: write one with `mirage cluster import`, then set "
                "cluster.file or give --cluster. To report on a log without the service, give "
                "--from-sacct FILE --cluster C.toml"
            )
        params = load_params(file)
        return cls(settings.cluster.name, params, database_setup.open_store(settings))

    def export_log(self, folder: Path, options: ReportOptions, output: StudyOutput) -> JobLog:
        """Write the stored jobs that the window needs as a trace in `folder`."""
        path = folder / _FILE
        with self.store.read() as tx:
            names = clusters.list_cluster_names(tx).items()
            cluster_id = next((cluster_id for cluster_id, name in names if name == self.name), None)
            last = None if cluster_id is None else job_history.read_last_submission(tx, cluster_id)
            if cluster_id is None or last is None:
                raise InputError(
                    f"no job of cluster {self.name} is stored yet: run the service for some weeks, "
                    "or load a log with `mirage ingest`"
                )
            until = last if options.until is None else parse_instant(options.until, "--until")
            since = max(0, parse_since(options.since, until) - BEFORE_S)
            count = job_history.count_jobs(tx, cluster_id)
            with output.show_progress("reading the job history", count) as on_rows:
                write_history(tx, cluster_id, path, since, on_rows)
        return JobLog(path, f"the history of {self.name}")

    def count_released_while_away(self, options: ReportOptions) -> int:
        """Count the window's hand-overs that Slurm released by a plan while Mirage was away."""
        with self.store.read() as tx:
            names = clusters.list_cluster_names(tx).items()
            cluster_id = next((cluster_id for cluster_id, name in names if name == self.name), 0)
            until = int(time.time())
            if options.until is not None:
                until = parse_instant(options.until, "--until")
            since = parse_since(options.since, until)
            span = OutcomeSpan(cluster_id=cluster_id, since=since, until=until)
            return handover_outcomes.count_while_away(tx, span)

    def save_report(self, document: Mapping[str, Any]) -> None:
        """Save the document as the report that the dashboard and REST show."""
        with self.store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, self.name)
            reports.put_report(tx, cluster_id, reports.SHADOW, document, at=int(time.time()))
            changes.record_change(tx, cluster_id, Topic.QUEUE)
