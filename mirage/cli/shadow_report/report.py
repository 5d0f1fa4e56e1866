"""`mirage report`: what Mirage would have done for a site."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mirage.cli.cluster_file import load_site_params
from mirage.cli.options import ConfigOption, get_models_folder
from mirage.cli.policies.table_options import check_finite, make_table, warn_of_unreplayed_rows
from mirage.cli.shadow_report.document import Document, build_document, build_empty_document
from mirage.cli.shadow_report.handover_pairs import (
    HandoverPair,
    ReportOptions,
    check_window,
    choose_pairs,
    compute_window,
)
from mirage.cli.shadow_report.html_page import render_page
from mirage.cli.shadow_report.job_history import JobLog, SiteHistory
from mirage.cli.shadow_report.terminal_text import print_report
from mirage.cli.simulation.simulate import render_rows_table
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.signals import end_like_ctrl_c
from mirage.cli.ui.study_output import TERMINAL
from mirage.domain.handover import OVERLAP_PRICE
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.errors import InputError
from mirage.policy.registry import AUTO
from mirage.sim.types import Params, SimJob
from mirage.studies.evaluation.policy_evaluation import ORACLE, EvaluationRequest, run_evaluation
from mirage.studies.output_check import check_writable
from mirage.studies.tables.table_plan import build_plan, count_cores
from mirage.traces.workloads import replay

app = typer.Typer()
report = typer.Typer(no_args_is_help=True)
app.add_typer(
    report, name="report", help="What Mirage would have saved a site, and whether it is needed."
)

JUDGED = ("reactive", "average", ORACLE, "fixed-lead", "slurm-estimate", AUTO)
"""In the order of `mirage evaluate`."""


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
    overlap_price: Annotated[
        float,
        typer.Option(
            min=0.0,
            callback=check_finite,
            help="Cost of an hour of overlap in hours of interruption.",
        ),
    ] = OVERLAP_PRICE,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    config: ConfigOption = None,
) -> None:
    """Had Mirage acted in the last weeks: what would it have saved, and is it needed?

    Of the history that the service has stored, or of a log alone with --from-sacct: then nothing
    need be installed. Nothing is touched: the jobs are replayed on the cluster that C.toml
    describes. Every 6 hours of the window a chain's hand-over is put into it, and every moment to
    release its successor is tried. Mirage's default policy is then judged against afterany
    (reactive), afterany under PriorityFlags=ACCRUE_ALWAYS, fixed-lead, average and slurm-estimate.
    The answer is a recommendation with its reason; docs/report.md has the rules. Users appear in no
    output.

    Without a log the report is kept, and the dashboard and REST show the last one:
    mirage-report.timer writes one each week.

    A first try, with the sacct command of docs/report.md as log.txt:

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
    how = _EvaluationOptions(jobs or count_cores(), get_models_folder(config), overlap_price)
    site = SiteHistory.from_config(config, cluster) if from_sacct is None else None
    with end_like_ctrl_c(), _open_folder(keep) as folder:
        if site is not None:
            log, params = site.export_log(folder, asked), site.params
        else:
            log, params = _load_given_log(from_sacct, cluster)
        taken = replay.load_replay(log.path, params)
        whole = _build_report(log, params, taken, asked, folder, how)
    if site is not None and store:
        site.save_report(whole)
    if html is not None:
        _write_page(html, render_page(whole))
        typer.echo(f"mirage: {html} is written", err=True)
    if as_json:
        typer.echo(json.dumps(whole, indent=1))
    else:
        console = Console()
        print_report(whole, console)
        console.print(render_rows_table(taken))
    warn_of_unreplayed_rows(Path(log.name), taken)


Tables = list[tuple[HandoverPair, Path, EpisodeTable]]


@dataclass(frozen=True, slots=True)
class _EvaluationOptions:
    processes: int
    models: Path
    overlap_price: float


def _load_given_log(trace: Path | None, cluster: Path | None) -> tuple[JobLog, Params]:
    if trace is None or cluster is None:
        raise InputError("a log needs its cluster file: give --from-sacct FILE --cluster C.toml")
    return JobLog(trace, trace.name), load_site_params(cluster)


def _build_report(
    log: JobLog,
    params: Params,
    taken: replay.Replay,
    asked: ReportOptions,
    folder: Path,
    how: _EvaluationOptions,
) -> Document:
    replayed = taken.workload.jobs
    if not replayed:
        raise InputError(f"{log.path}: {_explain_no_jobs(taken)}")
    check_window(replayed, asked)
    made = _build_tables(log.path, params, replayed, asked, folder, how.processes)
    if made:
        told = _evaluate_tables(made, how.models, how.overlap_price)
    else:
        told = build_empty_document(compute_window(replayed, asked).days)
    return told | {
        "trace": log.name,
        "cluster": params.name,
        "accrue_always": params.accrue_always,
        "overlap_price": how.overlap_price,
        "rows": _count_rows(taken),
    }


def _count_rows(taken: replay.Replay) -> Document:
    """What became of the rows of the log, by number alone: jobs are people's."""
    return {
        "read": taken.read,
        "replayed": len(taken.workload),
        "refused": taken.refused,
        "skipped": taken.skipped,
        "assumed": taken.assumed,
    }


def _explain_no_jobs(taken: replay.Replay) -> str:
    """Of a log without a job to replay."""
    if not taken.read:
        return "it holds no jobs"
    out = [*taken.refused.items(), *taken.skipped.items()]
    why = ", ".join(f"{reason} ({rows})" for reason, rows in out)
    return f"not one of {taken.read} rows can be replayed: {why}"


def _build_tables(
    trace: Path,
    params: Params,
    replayed: Sequence[SimJob],
    asked: ReportOptions,
    folder: Path,
    processes: int,
) -> Tables:
    """A table for each pair that has start points and episodes."""
    wanted = [p for p in choose_pairs(replayed, params, asked) if len(p.settings.start_points)]
    if wanted:
        warn_if_compiling()
    made: Tables = []
    for number, pair in enumerate(wanted, start=1):
        typer.echo(f"mirage: {number} of {len(wanted)}: {pair.name}", err=True)
        path = folder / f"pair-{number}.npz"
        try:
            table = make_table(
                build_plan(trace, params, replayed, pair.settings), path, processes
            ).table
        except InputError as error:
            typer.echo(f"mirage: note: {pair.name}: {error}", err=True)
            continue
        made.append((pair, path, table))
    return made


def _evaluate_tables(made: Tables, under: Path, overlap_price: float) -> Document:
    request = EvaluationRequest(
        paths=[path for _, path, _ in made],
        tables=[table for _, _, table in made],
        names=JUDGED,
        models=under,
        overlap_price=overlap_price,
    )
    judged = run_evaluation(request, TERMINAL)
    return build_document([pair for pair, _, _ in made], judged, overlap_price)


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
