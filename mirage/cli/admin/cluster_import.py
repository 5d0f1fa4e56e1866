"""`mirage cluster`: cluster files, which describe a machine to the simulator."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.options import JsonOption
from mirage.cluster.site_import import slurm_answers
from mirage.cluster.site_import.notes import add_job_counts
from mirage.cluster.site_import.params import ImportedSite, convert_site
from mirage.errors import ClusterUnavailable, InputError, MalformedText
from mirage.slurm.text import hostlist
from mirage.traces.cluster_files.reader import ClusterFile, parse_cluster_file
from mirage.traces.cluster_files.writer import render_cluster_file
from mirage.traces.formats.site_clock import get_time_zone
from mirage.traces.formats.trace_file import open_trace

app = typer.Typer()
cluster_app = typer.Typer(
    no_args_is_help=True, help="Cluster files: describe a site to the simulator."
)
app.add_typer(cluster_app, name="cluster")


@cluster_app.callback()
def describe_cluster_commands() -> None:
    """Cluster files: describe a site to the simulator. Their keys are in docs/admin/clusters.md."""


@cluster_app.command("import")
def import_cluster_file(
    *,
    from_dir: Annotated[
        Path | None,
        typer.Option(help="Read captured answers here; docs/admin/clusters.md has their names."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Zone of local times in captured answers, such as America/Chicago. "
            "Default: this host's. Epoch seconds need none."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Count in this log (sacct -P, parquet, SWF) how many jobs each thing left out "
            "concerns, and say so in the file's head."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the cluster file of the Slurm on this host, or of captured answers.

    Asks scontrol for the configuration, nodes, partitions and reservations, and sacctmgr for QOS
    and associations, one after the other, and changes nothing. Without accounting there is a file
    all the same. What is assumed, and what the simulator does not do, stands at the file's head.
    """
    zone = None if timezone is None else get_time_zone(timezone)
    if out is not None and out.exists() and not force:
        raise InputError(f"{out} is there already: --force writes over it")
    site = _read_captured_site(from_dir, zone) if from_dir is not None else _query_site(zone)
    if log is not None:
        site = replace(site, notes=_count_affected_jobs(site.notes, log, timezone))
    written = render_cluster_file(
        site.params, _build_header(site), node_names=hostlist.compress_hostlist(site.node_names)
    )
    # Read back before it is shown: a file with a fault is no result.
    cluster_file = parse_cluster_file(written, str(out or "the imported file"))
    if out is not None:
        _write_atomically(out, written)
    if as_json:
        typer.echo(json.dumps(_build_summary(site, cluster_file, out, written)))
    elif out is None:
        typer.echo(written, nl=False)
    else:
        _print_summary(site, cluster_file, out)


def _query_site(zone: tzinfo | None) -> ImportedSite:
    try:
        return convert_site(slurm_answers.fetch_answers(), zone)
    except MalformedText as error:
        # Half an answer of a Slurm in trouble: nothing is wrong with what was given to us.
        raise ClusterUnavailable(f"Slurm's answer does not read: {error}") from error


def _read_captured_site(folder: Path, zone: tzinfo | None) -> ImportedSite:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a directory")
    return convert_site(slurm_answers.load_answers(folder), zone)


def _count_affected_jobs(notes: Sequence[str], log: Path, timezone: str | None) -> tuple[str, ...]:
    with open_trace(log, timezone=timezone) as trace:
        return add_job_counts(notes, (job for batch in trace.iter_batches() for job in batch))


def _build_header(site: ImportedSite) -> list[str]:
    return [
        f"Cluster file of {site.params.name}, by `mirage cluster import`. "
        "Keys: docs/admin/clusters.md.",
        *site.notes,
    ]


def _write_atomically(out: Path, written: str) -> None:
    """Whole or not at all."""
    part = out.with_name(f"{out.name}.part")
    try:
        part.write_text(written, encoding="utf-8")
        os.replace(part, out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{out} cannot be written: {error.strerror}") from error


def _build_summary(
    site: ImportedSite, cluster_file: ClusterFile, out: Path | None, written: str
) -> dict[str, object]:
    return {
        **_count_parts(site),
        "notes": list(site.notes),
        "warnings": list(cluster_file.warnings),
        "out": None if out is None else str(out),
        "text": written,
    }


def _count_parts(site: ImportedSite) -> dict[str, str | int]:
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


def _print_summary(site: ImportedSite, cluster_file: ClusterFile, out: Path) -> None:
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
