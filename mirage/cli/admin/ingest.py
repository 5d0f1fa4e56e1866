"""`mirage ingest`: stores the jobs of a trace file in the service's history."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirage.cli.options import ConfigOption, JsonOption, TimezoneOption, warn_of_local_times
from mirage.errors import InputError
from mirage.history.formats.trace_row import TraceFormat

if TYPE_CHECKING:
    from mirage.history.formats.trace_file import TraceFile
    from mirage.history.ingest.trace_import import ImportReport

app = typer.Typer()

_REASONS = 3
"""How many reasons a sentence names; the table has all of them."""


@app.command("ingest")
def ingest_trace(
    file: Annotated[Path, typer.Argument(help="The trace file; a text file may be gzipped.")],
    *,
    cluster: Annotated[
        str,
        typer.Option(help="The cluster that the jobs ran on, as cluster.name of the service."),
    ],
    trace_format: Annotated[
        TraceFormat | None,
        typer.Option("--format", help="The file's format. Default: recognized by its content."),
    ] = None,
    timezone: TimezoneOption = None,
    database: Annotated[
        str | None,
        typer.Option(help="Database URL. Default: MIRAGE_DATABASE_URL or the config file."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the jobs of a trace file in the history. Running it again changes nothing.

    Policies forecast waits from the waits of past jobs. With a stored history they can do so from
    the service's first hour on. docs/reference/traces.md describes the formats, and has the `sacct`
    command that writes a good trace.

    The command refuses rows that contradict themselves, skips rows of another cluster (column
    Cluster), and counts both by reason. It stores all other rows. The exit code is 2 if it stored
    no row although the file has rows, or if the file cannot be read. Otherwise the exit code is 0,
    with a warning on stderr if rows were refused or skipped.
    """
    from mirage.config import settings
    from mirage.database.schema.engine import Store
    from mirage.history.formats.trace_file import open_trace
    from mirage.history.ingest.trace_import import import_trace

    configured = None if database else settings.load_settings(config)
    with (
        open_trace(file, trace_format, timezone, cluster=cluster) as trace,
        closing(Store(configured.database_url if configured else str(database))) as store,
        _show_progress(file.name) as on_progress,
    ):
        report = import_trace(store, cluster, trace, on_progress)
        other_clusters = sorted(trace.clusters.keys() - {cluster.lower()})
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        typer.echo(f"{file.name} ({trace.format}) into cluster {cluster}")
        Console().print(_render_table(report, trace.format))
    warn_of_local_times(file, trace.local_zone)
    _warn_of_refused_rows(file, report, other_clusters)
    if configured and "name" in configured.cluster.model_fields_set:
        _warn_of_other_cluster(cluster, configured.cluster.name)


def _warn_of_other_cluster(cluster: str, configured_name: str) -> None:
    if cluster != configured_name:
        typer.echo(
            f"mirage: note: the configuration's cluster.name is {configured_name}: the service of "
            f"{configured_name} does not use the history of {cluster}",
            err=True,
        )


def _warn_of_refused_rows(
    file: Path, report: "ImportReport", other_clusters: Sequence[str]
) -> None:
    """Warn of rows that were not stored, on standard error, which cron mails.

    `other_clusters`: other clusters that rows belong to. Raises InputError if no row was stored.
    """
    from mirage.history.formats.sacct_dump import OTHER_CLUSTER

    skipped_rows = report.skipped_why.get(OTHER_CLUSTER, 0)
    if skipped_rows and report.imported == 0:
        raise InputError(
            f"{file}: no row was stored: {skipped_rows} of {report.read} rows belong to cluster "
            f"{', '.join(other_clusters[:_REASONS])}. Give --cluster as Slurm's ClusterName"
        )
    if skipped_rows:
        typer.echo(
            f"mirage: warning: {file}: {skipped_rows} of {report.read} rows were skipped: they "
            f"belong to another cluster: {', '.join(other_clusters[:_REASONS])}",
            err=True,
        )
    if report.is_useless:
        raise InputError(
            f"{file}: none of {report.read} rows could be stored: {_format_reasons(report)}"
        )
    if report.refused:
        typer.echo(
            f"mirage: warning: {file}: {report.refused} of {report.read} rows were refused, "
            f"all others are stored: {_format_reasons(report)}",
            err=True,
        )


def _format_reasons(report: "ImportReport") -> str:
    """Return the most frequent reasons, each with its number of rows."""
    top_reasons = list(report.refused_why.items())[:_REASONS]
    other_rows = report.refused - sum(rows for _, rows in top_reasons)
    sentences = [f"{reason} ({rows})" for reason, rows in top_reasons]
    return ", ".join([*sentences, f"other reasons ({other_rows})"] if other_rows else sentences)


@contextmanager
def _show_progress(name: str) -> "Iterator[Callable[[TraceFile], None]]":
    """Show a bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with bar:
        task = bar.add_task(escape(name), total=1.0, rows=0)
        yield lambda trace: bar.update(task, completed=trace.share, rows=trace.tally.read)


def _render_table(report: "ImportReport", trace_format: TraceFormat) -> Table:
    table = Table()
    table.add_column("rows")
    table.add_column("number", justify="right")
    table.add_column("first seen at")
    for what in ("read", "added", "updated", "unchanged"):
        table.add_row(what, str(getattr(report, what)))
    unit = "row" if trace_format is TraceFormat.PARQUET else "line"

    def add_rows(reasons: dict[str, int]) -> None:
        for reason, rows in reasons.items():
            table.add_row(f"  {escape(reason)}", str(rows), f"{unit} {report.first[reason]}")

    for what, reasons in (("refused", report.refused_why), ("skipped", report.skipped_why)):
        table.add_row(what, str(getattr(report, what)))
        add_rows(reasons)
    if report.assumed:
        table.add_row("stored with an assumption", "")
        add_rows(report.assumed)
    return table
