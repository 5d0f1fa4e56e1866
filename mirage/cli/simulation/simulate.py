"""`mirage simulate`: replays a log on a simulated cluster."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.connection.suggestions import suggest_policies
from mirage.cli.options import (
    ConfigOption,
    JsonOption,
    OverlapPriceOption,
    TimezoneOption,
    get_models_folder,
    warn_of_local_times,
)
from mirage.cli.simulation.finish import plan_chains, play_chains
from mirage.cli.trace_source import FromDatabaseOption, open_trace_source, require_cluster_file
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.progress import show_share_bar
from mirage.cli.ui.replay_rows import create_table, render_rows_table
from mirage.domain.chain import OVERLAP_PRICE, Style
from mirage.errors import InputError
from mirage.simulator.slurm_release import describe_planner

if TYPE_CHECKING:
    from mirage.history.workloads.replay import Replay
    from mirage.lab.simulation.fidelity import Fidelity, Window
    from mirage.lab.simulation.simulation import SimulationReport

app = typer.Typer()

_CHAIN_OPTIONS = {
    *("chains", "nodes", "time_limit", "startup_time", "overlap_price", "returns"),
    *("policies", "style"),
}
"""The options that only --work heeds."""

ClusterName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Use the rows of this cluster, if the log has several (column Cluster).",
    ),
]


@app.command("simulate")
def simulate_log(
    context: typer.Context,
    trace: Annotated[
        Path | None, typer.Argument(help="The log: Parquet, sacct, SWF or TACC.")
    ] = None,
    *,
    cluster: Annotated[
        Path | None, typer.Option(help="The cluster file, as `mirage cluster import` writes it.")
    ] = None,
    from_database: FromDatabaseOption = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the replayed jobs here, as a Parquet trace.")
    ] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            help="Compare jobs, or with --work submit chains, from this day on (UTC). "
            "Default: 6 days after the log's first start.",
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(help="Compare jobs, or submit chains, before this day (UTC). Default: all."),
    ] = None,
    cluster_name: ClusterName = None,
    timezone: TimezoneOption = None,
    weekly: Annotated[
        bool, typer.Option("--weekly", help="Also show the mean wait of each week.")
    ] = False,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Instead of comparing waits, play chains among the log's jobs until each has "
            "worked for so long (336h, 14-0): the days that this takes under each policy.",
        ),
    ] = None,
    chains: Annotated[
        int,
        typer.Option(min=1, max=1000, help="With --work: chains, evenly spaced over the log."),
    ] = 20,
    nodes: Annotated[int, typer.Option(min=1, help="With --work: nodes of each link.")] = 1,
    time_limit: Annotated[
        str, typer.Option(metavar="TIME", help="With --work: the time limit of each link.")
    ] = "48:00:00",
    startup_time: Annotated[
        str,
        typer.Option(metavar="TIME", help="With --work: how long each link needs until it works."),
    ] = "10m",
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            autocompletion=suggest_policies,
            help="With --work: play this policy beside plain Slurm: a rule, twin, auto, "
            "models/NAME/VERSION or planned-quantile. Give the option several times for several "
            "policies. Default: all but twin, pin and models.",
        ),
    ] = None,
    style: Annotated[
        Style,
        typer.Option(
            help="With --work: what an early link does. concurrent and serve are not played."
        ),
    ] = Style.SEQUENTIAL,
    overlap_price: OverlapPriceOption = OVERLAP_PRICE,
    returns: Annotated[
        int,
        typer.Option(
            min=0, max=9, help="With --work: how often a link may give its nodes back (user guide)."
        ),
    ] = 2,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Replay a log on a simulated cluster, and compare the waits with the log's.

    The command takes from the log when each job was submitted, what it asked for, how long it ran
    (at most its time limit), and when a user cancelled a waiting job. It never uses when a job
    started. It compares the jobs that started, except those flagged `*_suspect`.
    docs/reference/simulate.md explains the figures.

    With --work the command plays chains on the same simulated cluster, one chain at a time, under
    plain Slurm and under Mirage's policies. `pin-then-free` is what `auto` does where the admin
    lets it pin. `planned-quantile` is what links do without a service. `bound` is the chain that is
    never interrupted.

    The command leaves out rows that contradict themselves, and names and counts them in a warning
    on stderr. The exit code is 2 if no row is left, or if a file cannot be read.
    """
    from mirage.history.workloads import replay
    from mirage.lab.simulation.log_replay import build_document, choose_judged_window
    from mirage.lab.simulation.simulation import build_simulator, write_jobs
    from mirage.lab.simulation.simulation import simulate_replay as run

    if work is None:
        _refuse_chain_options(context)
    elif weekly or out is not None:
        raise InputError("--weekly and --out tell of jobs, and --work of chains: leave one out")
    source = context.with_resource(
        open_trace_source(trace, cluster, config, from_database=from_database)
    )
    trace, params = source.path, load_site_params(require_cluster_file(source))
    trace_replay = replay.load_replay(trace, params, cluster_name, timezone)
    window = choose_judged_window(
        trace_replay,
        None if begin is None else to_epoch_s(begin),
        None if until is None else to_epoch_s(until),
    )
    warn_if_compiling()
    sim = build_simulator(trace_replay, params)
    if work is not None:
        is_priced = _is_on_command_line(context, "overlap_price")
        plan = plan_chains(
            trace_replay,
            params,
            window,
            chains=chains,
            nodes=nodes,
            times=(work, time_limit, startup_time),
            overlap_price=None if style is Style.SWITCH and not is_priced else overlap_price,
            style=style,
            returns=returns,
        )
        names, models = policies or (), get_models_folder(config)
        play_chains(trace_replay, sim, plan, names, models, as_json=as_json)
        warn_of_local_times(trace, trace_replay.local_zone)
        warn_of_refused_rows(trace, trace_replay)
        return
    with show_share_bar(trace.name) as on_progress:
        report = run(trace_replay, sim, window, on_progress)
    if out is not None:
        write_jobs(out, trace_replay, sim)
    if as_json:
        typer.echo(json.dumps(build_document(trace_replay, report, params.slurm_version)))
    else:
        console = Console()
        planner = describe_planner(params.slurm_version)
        typer.echo(f"{trace.name} on {params.name}, {params.nodes} nodes, {planner}")
        for table in _render_tables(trace_replay, report, weekly=weekly):
            console.print(table)
    warn_of_local_times(trace, trace_replay.local_zone)
    warn_of_refused_rows(trace, trace_replay)


def _refuse_chain_options(context: typer.Context) -> None:
    """Raise InputError for an option that would change nothing, since no chain is played."""
    for option in context.command.params:
        if option.name in _CHAIN_OPTIONS and _is_on_command_line(context, option.name):
            raise InputError(f"{option.opts[0]} is of chains: it needs --work")


def _is_on_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def to_epoch_s(when: datetime) -> int:
    """Return the instant in epoch seconds; without a zone it is in UTC."""
    return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp())


def _render_tables(
    trace_replay: "Replay", report: "SimulationReport", *, weekly: bool
) -> Iterator[Table]:
    yield _render_figures(report)
    yield _render_fidelity(report.fidelity, report.window, report.not_judged)
    if weekly and report.fidelity is not None:
        yield _render_weeks(report.fidelity)
    yield render_rows_table(trace_replay)


def _render_figures(report: "SimulationReport") -> Table:
    table = create_table("replay", "")
    table.add_row("jobs", f"{report.jobs:,}")
    table.add_row("started", f"{report.started:,}")
    table.add_row("simulated", f"{report.simulated_s / 86400:.1f} days")
    table.add_row("took", f"{report.wall_s:.2f} s")
    table.add_row("jobs a second", f"{report.jobs_per_s:,.0f}")
    for name, value in asdict(report.wait_h).items():
        table.add_row(f"wait, {name}", format_hours(value))
    return table


def _render_fidelity(
    fidelity: "Fidelity | None", window: "Window", not_judged: str | None
) -> Table:
    from mirage.lab.simulation.log_replay import format_day

    table = create_table("against the log", "")
    if window.begin < window.end:
        table.add_row("submitted", f"{format_day(window.begin)} to {format_day(window.end)}")
    if fidelity is None:
        table.add_row("not judged", not_judged)
        return table
    table.add_row("jobs judged", f"{fidelity.jobs:,}")
    late = "not in the log" if fidelity.late_eligible is None else f"{fidelity.late_eligible:,}"
    table.add_row("  eligible over a minute after submission", late)
    table.add_row("mean difference of a job's wait", format_hours(fidelity.wait_mae_h))
    table.add_row("rank correlation of waits", format_ratio(fidelity.spearman))
    table.add_row("correlation of weekly means", format_ratio(fidelity.weekly_corr))
    table.add_row("mean wait, replay / log", format_ratio(fidelity.mean_ratio))
    return table


def _render_weeks(fidelity: "Fidelity") -> Table:
    from mirage.lab.simulation.log_replay import format_day

    table = create_table("week from", "jobs", "log", "replay")
    for week in fidelity.weeks:
        table.add_row(
            format_day(week.begin),
            str(week.jobs),
            format_hours(week.logged_h),
            format_hours(week.simulated_h),
        )
    return table


def format_hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} h"


def format_ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def warn_of_refused_rows(trace: Path, trace_replay: "Replay") -> None:
    """Warn of left-out rows on standard error, since the table may go into a file unread."""
    if rows := sum(trace_replay.refused.values()):
        typer.echo(
            f"mirage: warning: {trace}: {rows} of {trace_replay.read} rows were left out: "
            + ", ".join(f"{reason} ({n})" for reason, n in trace_replay.refused.items()),
            err=True,
        )
