"""`mirage doctor`: checks this installation, and says for each fault what to do."""

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.cli.doctor.finding import Finding, Severity
from mirage.cli.options import ConfigOption, JsonOption
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import ClusterError

if TYPE_CHECKING:
    from mirage.config.settings import Settings

app = typer.Typer()


@app.command("doctor")
def run_doctor(
    *,
    config: ConfigOption = None,
    user: Annotated[
        bool, typer.Option("--user", help="Check your own service (`mirage serve --user`).")
    ] = False,
    moves: Annotated[
        bool,
        typer.Option(
            help="Try which commands Slurm allows to this account; this uses up two job ids."
        ),
    ] = True,
    url: Annotated[
        str | None,
        typer.Option(help="Check too whether clients reach the service at this address."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check this installation, and say for each fault what to do.

    The checks cover the configuration, the database, Slurm and its release, the policy, models,
    the service and its systemd unit, learning, disk, NFS shares, clock, MUNGE or SACK, and the
    wrapped sbatch. Run the command as the user who runs the service (`mirage-as-service doctor`).

    The command also tries which jobs this account may change in Slurm: those of all users (as
    Operator), those of an account (as its coordinator), or its own alone. These trials leave no
    trace: an account that is not Operator submits a held job of its own, and cancels that job.

    The exit code is 1 if there is a fault. Warnings leave it 0.
    """
    from mirage.cli.doctor.installation_checks import run_checks
    from mirage.config import settings as settings_file

    settings = _load_own_settings(config) if user else settings_file.load_settings(config)
    findings = run_checks(settings, config=config, user=user, moves=moves, url=url)
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        _print_findings(findings)
    if any(finding.verdict is Severity.FAULT for finding in findings):
        raise typer.Exit(1)


def _load_own_settings(config: Path | None) -> "Settings":
    from mirage.config import settings as settings_file
    from mirage.service import own_site

    settings = settings_file.load_user_settings(config)
    with suppress(ClusterError):  # the checks of Slurm say why it does not answer
        return own_site.complete_settings(settings)
    return settings


def _print_findings(findings: list[Finding]) -> None:
    table = Table()
    for column in ("check", "", "finding"):
        table.add_column(column)
    for finding in findings:
        table.add_row(finding.what, finding.verdict.value, escape(escape_unprintable(finding.told)))
    Console().print(table)
