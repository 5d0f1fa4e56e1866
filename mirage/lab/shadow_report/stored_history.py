"""The shadow report of the history that the service has stored: its jobs, and its place there."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage.database.chains import handover_outcomes
from mirage.database.chains.handover_outcomes import OutcomeSpan
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.operations import clusters, reports
from mirage.lab.shadow_report.handover_pairs import ReportOptions, parse_since
from mirage.lab.site_history import BEFORE_S, JobLog, SiteHistory
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.pair_options import parse_instant

_FILE = "history.parquet"


def export_window(
    site: SiteHistory, folder: Path, options: ReportOptions, output: StudyOutput
) -> JobLog:
    """Write the stored jobs that the report's window needs as a trace in `folder`."""

    def choose_since(last: int) -> int:
        until = last if options.until is None else parse_instant(options.until, "--until")
        return max(0, parse_since(options.since, until) - BEFORE_S)

    return site.export_log(folder / _FILE, choose_since, output)


def count_released_while_away(site: SiteHistory, options: ReportOptions) -> int:
    """Count the window's hand-overs that Slurm released by a plan while Mirage was away."""
    with site.store.read() as tx:
        until = int(time.time())
        if options.until is not None:
            until = parse_instant(options.until, "--until")
        since = parse_since(options.since, until)
        span = OutcomeSpan(cluster_id=site.find_cluster_id(tx) or 0, since=since, until=until)
        return handover_outcomes.count_while_away(tx, span)


def save_report(site: SiteHistory, document: Mapping[str, Any]) -> None:
    """Save the document as the report that the dashboard and REST show."""
    with site.store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, site.name)
        reports.put_report(tx, cluster_id, reports.SHADOW, document, at=int(time.time()))
        changes.record_change(tx, cluster_id, Topic.QUEUE)
