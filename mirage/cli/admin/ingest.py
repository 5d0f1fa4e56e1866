"""Commands on trace files."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirage.cli.options import JsonOption
from mirage.config import settings
from mirage.errors import InputError
from mirage.services.ingest.trace_import import ImportReport, import_trace
from mirage.store.database.engine import Store
from mirage.traces.formats.sacct_dump import OTHER_CLUSTER
from mirage.traces.formats.trace_file import TraceFile, TraceFormat, open_trace

app = typer.Typer()

_REASONS = 3
"""Named in one sentence; the table has all."""


@app.command("ingest")
def ingest_trace(
    file: Annotated[Path, typer.Argument(help="The trace; text may be gzip.")],
    *,
    cluster: Annotated[
        str, typer.Option(help="The cluster whose history this is: the service's cluster.name.")
    ],
    trace_format: Annotated[
        TraceFormat | None, typer.Option("--format", help="Default: found from the content.")
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Zone of local times in the file, such as America/Chicago. "
            "Default: this host's for sacct, TACC's for tacc. Epoch seconds need none."
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(help="Database URL. Default: MIRAGE_DATABASE_URL or the config file."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The config file, mirage.toml.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Take the jobs of a trace file into the history. Doing it again changes nothing.

    Policies forecast from what past jobs waited: with a history they can from the first hour on.
    The `sacct` command for a good dump, and the formats, are in docs/reference/traces.md.

    Rows that make no sense are refused and counted by reason, rows of another cluster (the column
    Cluster) are skipped and counted; all others are stored. Exit code 0, with a warning on stderr
    where rows were refused or are of another cluster; 2 where there were such rows and not one was
    taken, or where the file cannot be read.
    """
    configured = None if database else settings.load_settings(config)
    with (
        open_trace(file, trace_format, timezone, cluster=cluster) as trace,
        closing(Store(configured.database_url if configured else str(database))) as store,
        _show_progress(file.name) as told,
    ):
        report = import_trace(store, cluster, trace, told)
        others = sorted(trace.clusters.keys() - {cluster.lower()})
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        typer.echo(f"{file.name} ({trace.format}) into cluster {cluster}")
        Console().print(_render_table(report, trace.format))
    _warn_of_refused_rows(file, report, others)
    if configured and "name" in configured.cluster.model_fields_set:
        _warn_of_other_cluster(cluster, configured.cluster.name)


def _warn_of_other_cluster(cluster: str, own: str) -> None:
    if cluster != own:
        typer.echo(
            f"mirage: note: cluster.name is {own}: its service does not look at the history of "
            f"{cluster}",
            err=True,
        )


def _warn_of_refused_rows(file: Path, report: ImportReport, others: Sequence[str]) -> None:
    """On standard error, where cron looks: the counts alone would not be read.

    `others`: clusters that rows are of, and that this one is not.
    """
    elsewhere = report.skipped_why.get(OTHER_CLUSTER, 0)
    if elsewhere and report.taken == 0:
        raise InputError(
            f"{file}: not one row was taken: {elsewhere} of {report.read} are of cluster "
            f"{', '.join(others[:_REASONS])}. Name the cluster as Slurm does (ClusterName)"
        )
    if elsewhere:
        typer.echo(
            f"mirage: warning: {file}: {elsewhere} of {report.read} rows were skipped: they are of "
            f"another cluster: {', '.join(others[:_REASONS])}",
            err=True,
        )
    if report.useless:
        raise InputError(
            f"{file}: not one of {report.read} rows could be taken: {_format_reasons(report)}"
        )
    if report.refused:
        typer.echo(
            f"mirage: warning: {file}: {report.refused} of {report.read} rows were refused, "
            f"all others are stored: {_format_reasons(report)}",
            err=True,
        )


def _format_reasons(report: ImportReport) -> str:
    """The commonest reasons, each with its rows."""
    named = list(report.refused_why.items())[:_REASONS]
    others = report.refused - sum(rows for _, rows in named)
    told = [f"{reason} ({rows})" for reason, rows in named]
    return ", ".join([*told, f"other reasons ({others})"] if others else told)


@contextmanager
def _show_progress(name: str) -> Iterator[Callable[[TraceFile], None]]:
    """A bar on standard error, where that is a terminal."""
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


def _render_table(report: ImportReport, trace_format: TraceFormat) -> Table:
    table = Table()
    table.add_column("rows")
    table.add_column("number", justify="right")
    table.add_column("first met at")
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
        table.add_row("taken with something assumed", "")
        add_rows(report.assumed)
    return table
