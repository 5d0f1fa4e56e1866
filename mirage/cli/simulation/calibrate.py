"""`mirage calibrate`: fits a cluster file to a log."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.options import ConfigOption, JsonOption, TimezoneOption, warn_of_local_times
from mirage.cli.simulation.simulate import (
    ClusterName,
    format_hours,
    format_ratio,
    to_epoch_s,
    warn_of_refused_rows,
)
from mirage.cli.trace_source import FromDatabaseOption, open_trace_source
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.progress import show_share_bar
from mirage.cli.ui.replay_rows import create_table, render_rows_table
from mirage.lab.output_check import check_writable

if TYPE_CHECKING:
    from mirage.lab.calibration.calibration import Calibration

app = typer.Typer()

_LEAST_DROP = 1e-3
"""If the score drops by less over a setting's range, the log says nothing about the setting."""


@app.command("calibrate")
def calibrate_cluster_file(
    context: typer.Context,
    trace: Annotated[
        Path | None, typer.Argument(help="The log: Parquet, sacct, SWF or TACC.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Write the fitted cluster file here.")],
    cluster: Annotated[
        Path | None,
        typer.Option(help="Start from this cluster file. Default: Slurm's usual settings."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of nodes. Default: the most that were busy at once in the log.",
        ),
    ] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            help="Fit on jobs submitted from this day on (UTC). "
            "Default: 6 days after the log's first start.",
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            help="Fit on jobs that started before this day (UTC), and test on jobs submitted "
            "after it. Default: three quarters into the log."
        ),
    ] = None,
    judge_until: Annotated[
        datetime | None,
        typer.Option(help="Test on jobs submitted before this day (UTC). Default: all."),
    ] = None,
    from_database: FromDatabaseOption = False,
    cluster_name: ClusterName = None,
    timezone: TimezoneOption = None,
    trials: Annotated[int, typer.Option(min=8, help="Replays in each of the two searches.")] = 150,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same file.")] = 1,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Fit a cluster file to a log, and measure how well it fits.

    The command fits the file on the first weeks of the log, and tests it on the weeks after them.

    From the log it reads the number of nodes over time, the running jobs per user, and whether jobs
    that were cancelled while they waited would have run. It searches for the priority weights, the
    half-life, the maximum age and the backfill settings, with Optuna (the extra `calibrate`).
    Nodes, partitions and outages of a given cluster file stay; if the log had fewer nodes, the file
    gets drained nodes. docs/reference/simulate.md explains the method.

    The exit code is 2 if the log has no starts or is too short, if a file cannot be read or
    written, or if Optuna is not installed.
    """
    from mirage.lab.calibration.cluster_fitting import (
        ClusterFitting,
        FittingRequest,
        build_document,
        write_fitted_file,
    )

    check_writable(out)
    source = context.with_resource(
        open_trace_source(trace, cluster, config, from_database=from_database)
    )
    trace = source.path
    dates = {"begin": begin, "until": until, "end": judge_until}
    request = FittingRequest(
        trace=trace,
        cluster=source.cluster,
        nodes=nodes,
        cluster_name=cluster_name,
        timezone=timezone,
        trials=trials,
        seed=seed,
        instants={name: to_epoch_s(when) for name, when in dates.items() if when is not None},
    )
    fitting = ClusterFitting.from_request(request, load_site_params)
    warn_if_compiling()
    with show_share_bar(trace.name) as on_progress:
        calibration = fitting.fit_params(on_progress)
    write_fitted_file(out, calibration, trace)
    if as_json:
        typer.echo(json.dumps(build_document(calibration, fitting.trace_replay)))
    else:
        console = Console()
        for table in (*_render_tables(calibration), render_rows_table(fitting.trace_replay)):
            console.print(table)
        typer.echo(f"written: {out}")
    _warn_of_fewer_nodes(calibration)
    warn_of_local_times(trace, fitting.trace_replay.local_zone)
    warn_of_refused_rows(trace, fitting.trace_replay)


def _warn_of_fewer_nodes(calibration: "Calibration") -> None:
    log_nodes, file_nodes = calibration.seen.nodes, calibration.params.nodes
    if log_nodes > file_nodes:
        typer.echo(
            f"mirage: warning: in the log {log_nodes} nodes were busy at once, but the cluster "
            f"file has {file_nodes} nodes, which were kept: correct its nodes if they are too few",
            err=True,
        )


def _render_tables(calibration: "Calibration") -> Iterator[Table]:
    yield _render_measured(calibration)
    yield _render_fitted(calibration)
    yield _render_fidelity(calibration)


def _render_measured(calibration: "Calibration") -> Table:
    from mirage.lab.simulation.log_replay import format_day

    measured = calibration.seen
    table = create_table("read from the log", "")
    table.add_row("nodes", str(measured.nodes))
    for at, level in measured.levels:
        table.add_row(f"  from {format_day(at)}", str(level))
    table.add_row("limit of one user's running jobs", str(measured.max_jobs_pu or "none seen"))
    run = "yes" if calibration.params.cancelled_jobs_run else "no"
    table.add_row("jobs cancelled while they waited would have run", run)
    chains = measured.chains
    table.add_row(
        "jobs that look like dependency chains (replayed without dependencies)",
        f"{chains.chains} chains, {chains.jobs} jobs, {chains.wait_h:,.0f} h of waiting",
    )
    return table


def _render_fitted(calibration: "Calibration") -> Table:
    table = create_table("searched for", "value", "good from", "to", "score drops by")
    for setting in calibration.fitted:
        drop = f"{setting.drop:.3f}" if setting.drop >= _LEAST_DROP else "0: the log does not tell"
        row = (setting.value, setting.low, setting.high)
        table.add_row(setting.name, *(f"{value:,}" for value in row), drop)
    table.add_row(f"(the {calibration.recipe} of the trials)", "", "", "", "")
    return table


def _render_fidelity(calibration: "Calibration") -> Table:
    from mirage.lab.simulation.log_replay import format_day

    plan = calibration.plan
    table = create_table(
        "against the log", "jobs", "rank corr.", "weekly corr.", "mean ratio", "diff."
    )
    for weeks, figures in (
        (f"fitted on, {format_day(plan.begin)} to {format_day(plan.until)}", calibration.fitting),
        (f"held out, {format_day(plan.until)} to {format_day(plan.end)}", calibration.held_out),
    ):
        table.add_row(weeks, "", "", "", "", "")
        for name, f in figures.items():
            means = (
                format_ratio(f.spearman),
                format_ratio(f.weekly_corr),
                format_ratio(f.mean_ratio),
            )
            table.add_row(f"  {name}", str(f.jobs), *means, format_hours(f.wait_mae_h))
    return table
