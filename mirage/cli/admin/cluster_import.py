"""`mirage cluster`: writes the cluster file, which describes a site's machine to the simulator."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.options import JsonOption
from mirage.errors import InputError

if TYPE_CHECKING:
    from mirage.history.cluster_files.reader import ClusterFile
    from mirage.history.site_import.params import ImportedSite

app = typer.Typer()
cluster_app = typer.Typer(
    no_args_is_help=True, help="Write the cluster file, which describes a site to the simulator."
)
app.add_typer(cluster_app, name="cluster")


@cluster_app.callback()
def describe_cluster_commands() -> None:
    """Write the cluster file, which describes a site to the simulator.

    docs/admin/clusters.md explains the keys of a cluster file.
    """


@cluster_app.command("import")
def import_cluster_file(
    *,
    from_dir: Annotated[
        Path | None,
        typer.Option(
            help="Read saved output of Slurm's commands from this folder, instead of asking Slurm. "
            "docs/admin/clusters.md names the files."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the cluster file here. Default: standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Time zone of local times in the saved output, such as America/Chicago. "
            "Default: this host's. Times in epoch seconds need no zone."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="For each feature that the simulator leaves out, count the jobs of this log "
            "(sacct -P, Parquet, SWF) that use it. The counts stand at the top of the cluster file."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the cluster file of this host's Slurm, or of saved output of Slurm's commands.

    The command asks scontrol for the configuration, nodes, partitions and reservations, and
    sacctmgr for QOS and associations. It changes nothing in Slurm, and also works at a site
    without accounting. Comments at the top of the file list what was assumed and which features
    of the site the simulator leaves out.
    """
    from mirage.history.formats.site_clock import get_time_zone
    from mirage.service import site_file

    zone = None if timezone is None else get_time_zone(timezone)
    if out is not None and out.exists() and not force:
        raise InputError(f"{out} exists already: give --force to overwrite it, or another --out")
    site = (
        _read_captured_site(from_dir, zone) if from_dir is not None else site_file.query_site(zone)
    )
    if log is not None:
        site = replace(site, notes=_count_affected_jobs(site.notes, log, timezone))
    text, cluster_file = site_file.render_site(site, str(out or "the imported file"))
    if out is not None:
        site_file.write_atomically(out, text)
    if as_json:
        typer.echo(json.dumps(_build_summary(site, cluster_file, out, text)))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        _print_summary(site, cluster_file, out)


def _read_captured_site(folder: Path, zone: tzinfo | None) -> "ImportedSite":
    from mirage.history.site_import import slurm_answers
    from mirage.history.site_import.params import convert_site

    if not folder.is_dir():
        raise InputError(f"{folder} is not a directory")
    return convert_site(slurm_answers.load_answers(folder), zone)


def _count_affected_jobs(notes: Sequence[str], log: Path, timezone: str | None) -> tuple[str, ...]:
    from mirage.history.formats.trace_file import open_trace
    from mirage.history.site_import.notes import add_job_counts

    with open_trace(log, timezone=timezone) as trace:
        return add_job_counts(notes, (job for batch in trace.iter_batches() for job in batch))


def _build_summary(
    site: "ImportedSite", cluster_file: "ClusterFile", out: Path | None, text: str
) -> dict[str, object]:
    return {
        **_count_parts(site),
        "notes": list(site.notes),
        "warnings": list(cluster_file.warnings),
        "out": None if out is None else str(out),
        "text": text,
    }


def _count_parts(site: "ImportedSite") -> dict[str, str | int]:
    params = site.params
    return {
        "cluster": params.name,
        "nodes": params.nodes,
        "node_groups": max(len(params.node_groups), 1),
        "partitions": len(params.partitions),
        "qos": len(params.qos),
        "accounts": len(params.shares),
        "reservations": len(params.reservations),
    }


def _print_summary(site: "ImportedSite", cluster_file: "ClusterFile", out: Path) -> None:
    table = Table()
    table.add_column("imported")
    table.add_column("number", justify="right")
    for what, number in _count_parts(site).items():
        table.add_row(what.replace("_", " "), escape(str(number)))
    console = Console()
    console.print(table)
    for sentence in (*site.notes, *cluster_file.warnings):
        typer.echo(f"- {sentence}")
    typer.echo(f"written: {out}")
