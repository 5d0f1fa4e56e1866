"""`mirage doctor`: what stands between this installation and its work, a line each."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.options import JsonOption
from mirage.config import settings as settings_file
from mirage.domain.sanitize import escape_unprintable
from mirage.studies.diagnostics.finding import Finding, Severity
from mirage.studies.diagnostics.installation_checks import run_checks

app = typer.Typer()


@app.command("doctor")
def run_doctor(
    *,
    config: Annotated[
        Path | None, typer.Option(help="mirage.toml. Default: MIRAGE_CONFIG, then /etc/mirage.")
    ] = None,
    user: Annotated[
        bool, typer.Option("--user", help="Of your own service (`mirage serve --user`).")
    ] = False,
    moves: Annotated[
        bool, typer.Option(help="Try what this account may do in Slurm; costs two job numbers.")
    ] = True,
    url: Annotated[
        str | None, typer.Option(help="Where people reach it: that the way there is right.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what works here and what does not, and what to do: configuration, database, Slurm, who
    decides, models, the service and its unit, disk, NFS shares, clock, MUNGE, the wrapped sbatch.

    And what is known of this Slurm's release, and which moves this account may make, and for whom:
    as Operator, as coordinator of an account, or for itself. Run it as the user who runs the
    service (`mirage-as-service doctor`). Moves are tried where nothing comes of it: without
    Operator on a held job of one's own, which is cancelled again. The exit code is 1 where there is
    a fault.
    """
    settings = (
        settings_file.load_user_settings(config) if user else settings_file.load_settings(config)
    )
    findings = run_checks(settings, config=config, user=user, moves=moves, url=url)
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        _print_findings(findings)
    if any(finding.verdict is Severity.FAULT for finding in findings):
        raise typer.Exit(1)


def _print_findings(findings: list[Finding]) -> None:
    table = Table()
    for column in ("what", "", "told"):
        table.add_column(column)
    for finding in findings:
        table.add_row(finding.what, finding.verdict.value, escape(escape_unprintable(finding.told)))
    Console().print(table)
