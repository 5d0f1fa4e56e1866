"""`mirage episodes`: simulates hand-overs on a trace, and writes them as a table."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.connection.suggestions import suggest_partitions
from mirage.cli.options import (
    ConfigOption,
    JsonOption,
    TimezoneOption,
    check_finite,
    warn_of_local_times,
)
from mirage.cli.policies.executor_options import ExecutorName, ExecutorOption, build_executor
from mirage.cli.policies.table_options import make_table, warn_of_unreplayed_rows
from mirage.cli.trace_source import FromDatabaseOption, open_trace_source, require_cluster_file
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.study_output import TERMINAL
from mirage.errors import InputError
from mirage.history.workloads.load_scaling import MOST, scale_load

app = typer.Typer()


@app.command("episodes")
def build_episode_table(
    context: typer.Context,
    trace: Annotated[
        Path | None, typer.Argument(help="The trace, in any format `mirage ingest` reads.")
    ] = None,
    *,
    cluster: Annotated[
        Path | None, typer.Option(metavar="C.toml", help="The cluster file.")
    ] = None,
    from_database: FromDatabaseOption = False,
    nodes: Annotated[int, typer.Option(metavar="K", help="Nodes of each job.")],
    time_limit: Annotated[
        str, typer.Option(help="The time limit of each job, as sbatch takes it: 48:00:00.")
    ],
    every: Annotated[str, typer.Option(help="The time between two hand-overs: 4h, 30m, 0:30:00.")],
    out: Annotated[Path, typer.Option(metavar="E.npz", help="Write the table here.")],
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="D",
            help="Begin the first hand-over then, in UTC: 2023-02-13. "
            "Default: six days into the trace.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="Begin no hand-over from then on, in UTC. Default: two time limits before the "
            "trace's last submission.",
        ),
    ] = None,
    partition: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The partition of each job. Default: the cluster file's first.",
            autocompletion=suggest_partitions,
        ),
    ] = "",
    qos: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The QOS of each job. Default: the cluster file's first."
        ),
    ] = "",
    user: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Submit the jobs as this user of the trace, with the user's fair share and "
            "limits. Default: a new user without any usage.",
        ),
    ] = "",
    account: Annotated[
        str,
        typer.Option(metavar="NAME", help="The account of each job. Default: that of --user."),
    ] = "",
    load: Annotated[
        float,
        typer.Option(
            metavar="TIMES",
            min=0.1,
            max=MOST,
            callback=check_finite,
            help="Scale the number of the trace's jobs, so that models learn from other loads. "
            "0.8 leaves out a fifth of the jobs. 1.1 submits a tenth of them again, weeks later.",
        ),
    ] = 1.0,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. Default: one for each core."),
    ] = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    twin: Annotated[
        bool,
        typer.Option(
            "--twin",
            help="Also store the twin's forecasts, in E.twin.npz. This takes ten times as long. "
            "Default: a later command computes them if it needs them, but not for a table "
            "--from-database.",
        ),
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Simulate hand-overs on a trace, and write them as a table to train and evaluate on.

    The command replays the whole trace in the simulator. At each start point it submits a job, the
    predecessor. For every 10 minutes of the predecessor's run, the table has what a policy could
    have observed, and when the successor would have started if it had been released then.
    docs/reference/episodes.md describes the file.

    If the command is interrupted, run it again: it goes on where it stopped.
    """
    from mirage.history.workloads import replay
    from mirage.judging.table.episode_table import EpisodeTable
    from mirage.lab.tables.pair_options import build_pair_settings, choose_account
    from mirage.lab.tables.table_plan import build_plan, count_cores, warn_if_beyond_trace
    from mirage.lab.tables.table_report import build_table_report
    from mirage.lab.tables.twin_asking import add_twin_forecasts

    blocks = build_executor(executor, jobs or count_cores(), config)
    source = context.with_resource(
        open_trace_source(trace, cluster, config, from_database=from_database)
    )
    trace, params = source.path, load_site_params(require_cluster_file(source))
    trace_replay = replay.load_replay(trace, params, timezone=timezone)
    replayed_jobs = scale_load(trace_replay.workload.jobs, load)
    if not replayed_jobs:
        raise InputError(f"{trace}: none of {trace_replay.read} rows can be replayed")
    settings = replace(
        build_pair_settings(replayed_jobs, nodes, time_limit, every, since, until),
        partition=partition,
        qos=qos,
        user=user,
        account=choose_account(replayed_jobs, user, account),
    )
    settings.check_feasible(params)
    plan = build_plan(trace, params, replayed_jobs, settings, load, timezone or "")
    warn_if_compiling()
    started_at = time.perf_counter()
    built = make_table(plan, out, blocks)
    wall_s = time.perf_counter() - started_at
    if twin:
        add_twin_forecasts(out, EpisodeTable.load(out), TERMINAL, blocks)
    warn_if_beyond_trace(out, built.table, TERMINAL)
    report = build_table_report(out, built, wall_s)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        Console().print(_render_report(report))
    warn_of_local_times(trace, trace_replay.local_zone)
    warn_of_unreplayed_rows(trace, trace_replay)


def _render_report(report: dict[str, Any]) -> Table:
    table = Table(title=report["out"])
    table.add_column("")
    table.add_column("", justify="right")
    for what in ("episodes", "instants", "left_out", "beyond_trace", "resumed"):
        table.add_row(what.replace("_", " "), str(report[what]))
    table.add_row("episodes per s", f"{report['episodes_per_s']:.1f}")
    reactive = report["reactive"]
    table.add_row("reactive interruption, h", f"{reactive['interruption_h']:.2f}")
    for load, figures in reactive["by_class"].items():
        hours = figures["interruption_h"]
        text = "" if hours is None else f"{hours:.2f}"
        table.add_row(f"  {load} ({figures['episodes']})", text)
    return table
