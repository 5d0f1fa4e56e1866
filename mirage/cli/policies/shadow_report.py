"""`mirage report`: what Mirage would have done for a site."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.options import ConfigOption, JsonOption, get_models_folder
from mirage.cli.policies.table_options import (
    OverlapPriceOption,
    make_table,
    warn_of_unreplayed_rows,
)
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.replay_rows import render_rows_table
from mirage.cli.ui.signals import end_like_ctrl_c
from mirage.cli.ui.study_output import TERMINAL
from mirage.domain.handover import OVERLAP_PRICE
from mirage.errors import InputError
from mirage.policy.registry import AUTO
from mirage.services.reports.recommendation import NAMES, list_shown
from mirage.sim.types import Params
from mirage.studies.evaluation.auto_choices import format_auto_choices
from mirage.studies.output_check import check_writable
from mirage.studies.shadow_report.handover_pairs import ReportOptions
from mirage.studies.shadow_report.html_page import render_page
from mirage.studies.shadow_report.job_history import JobLog, SiteHistory
from mirage.studies.shadow_report.report_text import (
    COLUMNS,
    describe_pairs,
    format_cell,
    format_saving,
    format_title,
)
from mirage.studies.shadow_report.shadow_study import ShadowStudy, build_report
from mirage.studies.tables.table_plan import count_cores
from mirage.traces.workloads import replay

app = typer.Typer()
report = typer.Typer(no_args_is_help=True)
app.add_typer(
    report, name="report", help="What Mirage would have saved a site, and whether it is needed."
)

_LED = "interruption_h"
"""A terminal has width for the interval of one: JSON and page have them all."""


@report.command("shadow")
def report_shadow(
    *,
    from_sacct: Annotated[
        Path | None,
        typer.Option(
            "--from-sacct",
            metavar="FILE",
            help="A log: sacct text, swf, parquet or tacc, as `mirage ingest` reads it. "
            "Default: the history that the service has stored.",
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="C.toml",
            help="The cluster file: `mirage cluster import`. Default: cluster.file, without a log.",
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="28d", help="How far back from the end, or a first day, UTC.")
    ] = "28d",
    until: Annotated[
        str | None,
        typer.Option(metavar="D", help="Hand-overs begin before it, UTC. Default: the log's end."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P", help="May be given several times. Default: the busiest, three at most."
        ),
    ] = None,
    nodes: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K",
            help="Nodes of a link; may be given several times. Default: the one or two sizes that "
            "the partition's long jobs use most.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="48:00:00", help="Of a link. Default: the limit that long jobs use most."
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="6h", help="Between two hand-overs that are asked about.")
    ] = "6h",
    overlap_price: OverlapPriceOption = OVERLAP_PRICE,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page that needs no network."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the tables there, for `mirage evaluate`."),
    ] = None,
    store: Annotated[
        bool,
        typer.Option(
            help="Of the stored history: whether the dashboard and REST show this report from now "
            "on, in the place of the one before."
        ),
    ] = True,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes. Default: one for each core.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Had Mirage acted in the last weeks: what would it have saved, and is it needed?

    Of the history that the service has stored, or of a log alone with --from-sacct: then nothing
    need be installed. Nothing is touched: the jobs are replayed on the cluster that C.toml
    describes. Every 6 hours of the window a chain's hand-over is put into it, and every moment to
    release its successor is tried. Mirage's default policy is then judged against afterany
    (reactive), afterany under PriorityFlags=ACCRUE_ALWAYS, fixed-lead, average and slurm-estimate.
    The answer is a recommendation with its reason; docs/admin/report.md has the rules. Users
    appear in no output.

    Without a log the report is kept, and the dashboard and REST show the last one:
    mirage-report.timer writes one each week.

    A first try, with the sacct command of docs/admin/report.md as log.txt:

    mirage cluster import --out c.toml

    mirage report shadow --from-sacct log.txt --cluster c.toml --html out.html

    Exit code 0 whatever is recommended, too little data included; 2 where the log, the cluster
    file or an option does not read.
    """
    if html is not None:
        check_writable(html)
    asked = ReportOptions(
        since=since,
        until=until,
        every=every,
        partitions=partition or (),
        nodes=nodes or (),
        time_limit=time_limit,
    )
    processes, models = jobs or count_cores(), get_models_folder(config)
    site = (
        SiteHistory.from_config(config, cluster, load_site_params) if from_sacct is None else None
    )
    with end_like_ctrl_c(), _open_folder(keep) as folder:
        if site is not None:
            log, params = site.export_log(folder, asked, TERMINAL), site.params
        else:
            log, params = _load_given_log(from_sacct, cluster)
        taken = replay.load_replay(log.path, params)
        study = ShadowStudy(
            log=log,
            params=params,
            taken=taken,
            folder=folder,
            models=models,
            overlap_price=overlap_price,
            make_table=partial(make_table, processes=processes),
            announce=_announce_table,
        )
        whole = build_report(study, asked, TERMINAL)
    if site is not None and store:
        site.save_report(whole)
    if html is not None:
        _write_page(html, render_page(whole))
        typer.echo(f"mirage: {html} is written", err=True)
    if as_json:
        typer.echo(json.dumps(whole, indent=1))
    else:
        console = Console()
        _print_report(whole, console)
        console.print(render_rows_table(taken))
    warn_of_unreplayed_rows(Path(log.name), taken)


def _announce_table(number: int, count: int, name: str) -> None:
    if number == 1:
        warn_if_compiling()
    typer.echo(f"mirage: {number} of {count}: {name}", err=True)


def _load_given_log(trace: Path | None, cluster: Path | None) -> tuple[JobLog, Params]:
    if trace is None or cluster is None:
        raise InputError("a log needs its cluster file: give --from-sacct FILE --cluster C.toml")
    return JobLog(trace, trace.name), load_site_params(cluster)


@contextmanager
def _open_folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mirage-report-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"--keep {keep}: {error.strerror}") from error
    yield keep


def _write_page(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _print_report(document: dict[str, Any], console: Console) -> None:
    """Recommendation first, then what it rests on."""
    told = document["recommendation"]
    console.print(f"[bold]{escape(told['advice'])}[/bold]", soft_wrap=True)
    console.print(escape(told["reason"]), soft_wrap=True)
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
    table = Table(box=box.SIMPLE_HEAD, title=escape(format_title(group)), title_justify="left")
    table.add_column("", no_wrap=True)
    for heading, _, _ in COLUMNS:
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("Mirage saves\nsum, h", justify="right", overflow="fold")
    for name in list_shown(group["policies"]):
        told = group["policies"][name]["all"]
        cells = [
            format_cell(told, figure, digits, short=figure != _LED) for _, figure, digits in COLUMNS
        ]
        table.add_row(
            NAMES.get(name, name), *map(escape, cells), escape(format_saving(group, name))
        )
    return table
