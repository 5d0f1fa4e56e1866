"""`mirage episodes`: the table of hand-overs of a trace."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.options import JsonOption
from mirage.cli.policies.table_options import check_finite, make_table, warn_of_unreplayed_rows
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.study_output import TERMINAL
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.errors import InputError
from mirage.studies.tables.pair_options import build_pair_settings, choose_account
from mirage.studies.tables.table_plan import build_plan, count_cores, warn_if_beyond_trace
from mirage.studies.tables.table_report import build_table_report
from mirage.studies.tables.twin_asking import add_twin_forecasts
from mirage.traces.workloads import replay
from mirage.traces.workloads.load_scaling import MOST, scale_load

app = typer.Typer()


@app.command("episodes")
def build_episode_table(
    trace: Annotated[Path, typer.Argument(help="The trace, in any format `mirage ingest` reads.")],
    *,
    cluster: Annotated[Path, typer.Option(metavar="C.toml", help="The cluster file.")],
    nodes: Annotated[int, typer.Option(metavar="K", help="Nodes of either job of the pair.")],
    time_limit: Annotated[str, typer.Option(help="Of either job, as sbatch takes it.")],
    every: Annotated[str, typer.Option(help="Between start points: 4h, 30m, 0:30:00.")],
    out: Annotated[Path, typer.Option(metavar="E.npz", help="The table.")],
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="D",
            help="First start point, UTC: 2023-02-13. Default: six days into the trace.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="Start points lie before it, UTC. Default: two time limits before the "
            "trace's last submission.",
        ),
    ] = None,
    partition: Annotated[
        str, typer.Option(metavar="NAME", help="Of either job. Default: the cluster file's first.")
    ] = "",
    qos: Annotated[
        str, typer.Option(metavar="NAME", help="Of either job. Default: the cluster file's first.")
    ] = "",
    user: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A user of the trace, whose fair share and limits the pair has. "
            "Default: one of its own, without any usage.",
        ),
    ] = "",
    account: Annotated[
        str, typer.Option(metavar="NAME", help="Of either job. Default: that of --user.")
    ] = "",
    load: Annotated[
        float,
        typer.Option(
            metavar="TIMES",
            min=0.1,
            max=MOST,
            callback=check_finite,
            help="Replay so many times the jobs of the trace, for models to learn from. 0.8 leaves "
            "a fifth of them out, 1.1 lets a tenth come once more, weeks later.",
        ),
    ] = 1.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes. Default: one for each core.")
    ] = None,
    twin: Annotated[
        bool,
        typer.Option(
            "--twin",
            help="Ask the twin too, into E.twin.npz: ten times as long. Else it is asked when "
            "something needs it.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the table of hand-overs of a trace: every decision instant, every outcome.

    The whole trace is replayed. At each start point a predecessor is submitted; every 10 minutes
    of its run the table has what could be observed, and when its successor would have started had
    it been let go then. docs/reference/episodes.md describes the file.

    An interrupted command goes on where it was when it is repeated.
    """
    params = load_site_params(cluster)
    taken = replay.load_replay(trace, params)
    replayed = scale_load(taken.workload.jobs, load)
    if not replayed:
        raise InputError(f"{trace}: not one of {taken.read} rows can be replayed")
    settings = replace(
        build_pair_settings(replayed, nodes, time_limit, every, since, until),
        partition=partition,
        qos=qos,
        user=user,
        account=choose_account(replayed, user, account),
    )
    settings.check_feasible(params)
    plan = build_plan(trace, params, replayed, settings, load)
    warn_if_compiling()
    begun = time.perf_counter()
    made = make_table(plan, out, jobs or count_cores())
    wall_s = time.perf_counter() - begun
    if twin:
        add_twin_forecasts(out, EpisodeTable.load(out), TERMINAL)
    warn_if_beyond_trace(out, made.table, TERMINAL)
    report = build_table_report(out, made, wall_s)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        Console().print(_render_report(report))
    warn_of_unreplayed_rows(trace, taken)


def _render_report(report: dict[str, Any]) -> Table:
    table = Table(title=report["out"])
    table.add_column("")
    table.add_column("", justify="right")
    for what in ("episodes", "instants", "left_out", "beyond_trace", "resumed"):
        table.add_row(what.replace("_", " "), str(report[what]))
    table.add_row("episodes per s", f"{report['episodes_per_s']:.1f}")
    told = report["reactive"]
    table.add_row("reactive interruption, h", f"{told['interruption_h']:.2f}")
    for load, figures in told["by_class"].items():
        hours = figures["interruption_h"]
        shown = "" if hours is None else f"{hours:.2f}"
        table.add_row(f"  {load} ({figures['episodes']})", shown)
    return table
