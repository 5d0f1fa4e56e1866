"""`mirage report`: reports what Mirage would have saved a site."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.connection.suggestions import suggest_partitions
from mirage.cli.options import (
    ConfigOption,
    JsonOption,
    OverlapPriceOption,
    TimezoneOption,
    get_models_folder,
    warn_of_local_times,
)
from mirage.cli.policies.executor_options import ExecutorName, ExecutorOption, build_executor
from mirage.cli.policies.table_options import make_table, warn_of_unreplayed_rows
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.replay_rows import render_rows_table
from mirage.cli.ui.signals import end_like_ctrl_c
from mirage.cli.ui.study_output import TERMINAL
from mirage.domain.chain import OVERLAP_PRICE
from mirage.errors import InputError
from mirage.lab.output_check import check_writable
from mirage.simulator.types import Params

if TYPE_CHECKING:
    from mirage.lab.site_history import JobLog

app = typer.Typer()
report = typer.Typer(no_args_is_help=True)
app.add_typer(
    report,
    name="report",
    help="Report what Mirage would have saved a site, and whether the site needs it.",
)

_INTERVAL_FIGURE = "interruption_h"
"""The figure whose interval a terminal has room for. JSON and page have all intervals."""
_WITHOUT_SERVICE = "To report on a log without the service, give --from-sacct FILE --cluster C.toml"


@report.command("shadow")
def report_shadow(
    *,
    from_sacct: Annotated[
        Path | None,
        typer.Option(
            "--from-sacct",
            metavar="FILE",
            help="Use this log, in any format that `mirage ingest` reads. "
            "Default: the history that the service has stored.",
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="C.toml",
            help="The cluster file, as `mirage cluster import` writes it. A log needs one. "
            "Default: cluster.file of the configuration.",
        ),
    ] = None,
    timezone: TimezoneOption = None,
    since: Annotated[
        str,
        typer.Option(
            metavar="28d",
            help="Begin so long before the end, or on this day (UTC): 28d, 2026-02-01.",
        ),
    ] = "28d",
    until: Annotated[
        str | None,
        typer.Option(
            metavar="D", help="Begin no hand-over from then on, in UTC. Default: the log's end."
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            autocompletion=suggest_partitions,
            help="The partition of the hand-overs. Give the option several times for several "
            "partitions. Default: the busiest ones, three at most.",
        ),
    ] = None,
    nodes: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K",
            help="Nodes of each job. Give the option several times for several sizes. Default: the "
            "one or two sizes that long jobs of the partition use most.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="48:00:00",
            help="The time limit of each job. Default: the limit that long jobs use most.",
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="6h", help="The time between two simulated hand-overs.")
    ] = "6h",
    overlap_price: OverlapPriceOption = OVERLAP_PRICE,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.html", help="Write the report as a page, which needs no network."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the episode tables here, for `mirage evaluate`."),
    ] = None,
    store: Annotated[
        bool,
        typer.Option(
            help="Store the report of the service's history, so that the dashboard and REST show "
            "it in place of the last one."
        ),
    ] = True,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. Default: one for each core."),
    ] = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Report what Mirage would have saved in the last weeks, and whether the site needs it.

    The command uses the history that the service has stored. With --from-sacct it uses a log, and
    needs no service, no database and no Slurm.

    The command replays the jobs in the simulator, and changes nothing on the cluster. Every 6 hours
    of the window it simulates a hand-over of a chain, and tries every moment to release the next
    job. It compares Mirage's default policy with plain Slurm (afterany, named reactive), with
    afterany under PriorityFlags=ACCRUE_ALWAYS, and with the policies fixed-lead, average and
    slurm-estimate. The result is a recommendation with its reason. docs/admin/report.md has the
    rules. No output names a user.

    Mirage stores the report of its own history. The dashboard and REST show the newest one, and
    mirage-report.timer makes one each week.

    To try it, write log.txt by the sacct command of docs/admin/report.md, then run:

    mirage cluster import --out c.toml

    mirage report shadow --from-sacct log.txt --cluster c.toml --html out.html

    The exit code is 0 whatever the recommendation is, even if there is too little data. It is 2 if
    the log, the cluster file or an option is wrong.
    """
    from mirage.history.workloads import replay
    from mirage.lab.shadow_report.handover_pairs import ReportOptions
    from mirage.lab.shadow_report.html_page import render_page
    from mirage.lab.shadow_report.shadow_study import ShadowStudy, build_report
    from mirage.lab.shadow_report.stored_history import (
        count_released_while_away,
        export_window,
        save_report,
    )
    from mirage.lab.site_history import SiteHistory
    from mirage.lab.tables.table_plan import count_cores

    if html is not None:
        check_writable(html)
    options = ReportOptions(
        since=since,
        until=until,
        every=every,
        partitions=partition or (),
        nodes=nodes or (),
        time_limit=time_limit,
    )
    blocks = build_executor(executor, jobs or count_cores(), config)
    models = get_models_folder(config)
    site = (
        SiteHistory.from_config(config, cluster, load_site_params, _WITHOUT_SERVICE)
        if from_sacct is None
        else None
    )
    with end_like_ctrl_c(), _open_folder(keep) as folder:
        if site is not None:
            log, params = export_window(site, folder, options, TERMINAL), site.params
        else:
            log, params = _load_given_log(from_sacct, cluster, timezone)
        trace_replay = replay.load_replay(log.path, params, timezone=log.timezone)
        study = ShadowStudy(
            log=log,
            params=params,
            trace_replay=trace_replay,
            folder=folder,
            models=models,
            overlap_price=overlap_price,
            make_table=partial(make_table, executor=blocks),
            executor=blocks,
            announce=_announce_table,
        )
        document = build_report(study, options, TERMINAL)
    if site is not None:
        document["released_while_away"] = count_released_while_away(site, options)
    if site is not None and store:
        save_report(site, document)
    if html is not None:
        _write_page(html, render_page(document))
        typer.echo(f"mirage: {html} is written", err=True)
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        console = Console()
        _print_report(document, console)
        console.print(render_rows_table(trace_replay))
    warn_of_local_times(log.name, trace_replay.local_zone)
    warn_of_unreplayed_rows(Path(log.name), trace_replay)


def _announce_table(number: int, count: int, name: str) -> None:
    if number == 1:
        warn_if_compiling()
    typer.echo(f"mirage: {number} of {count}: {name}", err=True)


def _load_given_log(
    trace: Path | None, cluster: Path | None, timezone: str | None
) -> "tuple[JobLog, Params]":
    from mirage.lab.site_history import JobLog

    if trace is None or cluster is None:
        raise InputError(
            "a log needs the cluster file of its cluster: give --from-sacct FILE --cluster C.toml"
        )
    return JobLog(trace, trace.name, timezone), load_site_params(cluster)


@contextmanager
def _open_folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mirage-report-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"--keep {keep} cannot be created: {error.strerror}") from error
    yield keep


def _write_page(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _print_report(document: dict[str, Any], console: Console) -> None:
    """Print the recommendation, then the figures behind it."""
    from mirage.lab.evaluation.auto_choices import format_auto_choices
    from mirage.lab.shadow_report.report_text import describe_pairs
    from mirage.policies.registry import AUTO

    recommendation = document["recommendation"]
    console.print(f"[bold]{escape(recommendation['advice'])}[/bold]", soft_wrap=True)
    console.print(escape(recommendation["reason"]), soft_wrap=True)
    for line in describe_pairs(document):
        console.print(escape(line), soft_wrap=True)
    for group in document["groups"]:
        console.print(_render_group_table(group))
        if group["by"] != "all":
            console.print(f"{escape(group['recommendation']['advice'])}", soft_wrap=True)
    if document["groups"]:
        console.print(
            format_auto_choices(document["groups"][0]["policies"][AUTO]["all"]), soft_wrap=True
        )


def _render_group_table(group: dict[str, Any]) -> Table:
    from mirage.lab.shadow_report.report_text import (
        COLUMNS,
        format_cell,
        format_saving,
        format_title,
    )
    from mirage.reports.recommendation import LABELS, list_shown

    table = Table(box=box.SIMPLE_HEAD, title=escape(format_title(group)), title_justify="left")
    table.add_column("", no_wrap=True)
    for heading, _, _ in COLUMNS:
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("Mirage saves\nsum, h", justify="right", overflow="fold")
    for name in list_shown(group["policies"]):
        figures = group["policies"][name]["all"]
        cells = [
            format_cell(figures, figure, digits, short=figure != _INTERVAL_FIGURE)
            for _, figure, digits in COLUMNS
        ]
        table.add_row(
            LABELS.get(name, name), *map(escape, cells), escape(format_saving(group, name))
        )
    return table
