"""`mirage doctor`: what stands between this installation and its work, a line each."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage import bootstrap
from mirage import settings as settings_file
from mirage.cli import doctor_slurmrestd
from mirage.cluster import sudo
from mirage.cluster.abilities import abilities
from mirage.cluster.cli import SlurmCli
from mirage.cluster.runner import Runner
from mirage.domain.printable import printable
from mirage.errors import MirageError
from mirage.policy.auto import Auto
from mirage.policy.served import Served
from mirage.ports import observes
from mirage.settings import Settings

app = typer.Typer()


_SLURM = "Slurm"


class Verdict(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    """It works, and less well than it could."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    verdict: Verdict
    told: str


@app.command()
def doctor(
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Say what works here and what does not: database, Slurm, who decides.

    And which of the moves this account may make. Run it as the user who runs the service. Moves
    are tried where nothing comes of it: without Operator on a held job of one's own, which is
    cancelled again. The exit code is 1 where there is a fault.
    """
    settings = settings_file.load_own(config) if user else settings_file.load(config)
    findings = [
        _found("database", lambda: _database(settings)),
        _found(_SLURM, lambda: _slurm(settings)),
        _found("policy", lambda: _policy(settings)),
        _found("cluster file", lambda: _cluster_file(settings)),
        _found("identity", lambda: _identity(settings)),
        *_submit_by_sudo(settings),
    ]
    if moves and all(f.verdict is not Verdict.FAULT for f in findings if f.what == _SLURM):
        findings += _moves(settings)
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
    if any(finding.verdict is Verdict.FAULT for finding in findings):
        raise typer.Exit(1)


def _found(what: str, look: Callable[[], tuple[Verdict, str]]) -> Finding:
    try:
        return Finding(what, *look())
    except MirageError as error:
        return Finding(what, Verdict.FAULT, str(error))


def _database(settings: Settings) -> tuple[Verdict, str]:
    bootstrap.open_store(settings).close()
    bootstrap.check_places(settings)
    file = bootstrap.database_file(settings)
    if file is not None and file.stat().st_mode & 0o004:
        return Verdict.WARNING, f"everybody may read {file}, whatever PrivateData says: chmod o= it"
    return Verdict.GOOD, "it has this program's schema"


def _slurm(settings: Settings) -> tuple[Verdict, str]:
    bootstrap.check_slurm(settings)
    if settings.cluster.transport == "cli":
        return Verdict.GOOD, "its commands are on PATH"
    told, lacking = doctor_slurmrestd.look(settings)
    return Verdict.WARNING if lacking else Verdict.GOOD, "; ".join([told, *lacking])


def _policy(settings: Settings) -> tuple[Verdict, str]:
    """Which model serves, or which rule."""
    policy = bootstrap.policies(settings)(settings.provision.policy)
    if isinstance(policy, Auto):
        models = sum(candidate.scope is not None for candidate in policy.candidates)
        rules = ", ".join(c.name for c in policy.candidates if c.scope is None)
        return Verdict.GOOD, f"auto decides, among {models} models, {rules}"
    if not isinstance(policy, Served):
        return Verdict.GOOD, f"the rule {policy.name} decides"
    card = policy.artefact.card
    traces = sorted({str(t["trace"]) for t in card.get("trained_on", ())})
    told = f"{policy.name} decides: {card['family']}, trained on {', '.join(traces) or 'no trace'}"
    return Verdict.GOOD, told


def _cluster_file(settings: Settings) -> tuple[Verdict, str]:
    file = bootstrap.cluster_file(settings)
    if file is not None:
        return Verdict.GOOD, f"{file.params.name}, {file.params.nodes} nodes"
    policy = bootstrap.policies(settings)(settings.provision.policy)
    if isinstance(policy, Auto):
        told = "none is set: where nothing may be pinned, auto asks neither models nor the twin"
        return Verdict.WARNING, f"{told} (`mirage cluster import` writes one)"
    if observes(policy):
        return Verdict.WARNING, bootstrap.check(settings)[0]
    return Verdict.GOOD, "none is set, and no rule needs one"


def _identity(settings: Settings) -> tuple[Verdict, str]:
    """By what callers are known."""
    auth = settings.auth
    bootstrap.jwt_reader(settings)
    told = ["MUNGE" if shutil.which("unmunge") else "no MUNGE (unmunge is not on PATH)", "tokens"]
    if settings.service.socket is not None:
        told.append(f"the socket {settings.service.socket}")
    if auth.jwks_file is not None or auth.jwks_url is not None:
        told.append("JSON web tokens by public keys")
    if auth.jwt_key_file is not None:
        told.append(f"JSON web tokens by {auth.jwt_key_file}, with which anybody's can be made")
        return Verdict.WARNING, f"{', '.join(told)}: prefer public keys (auth.jwks_file)"
    return Verdict.GOOD, ", ".join(told)


def _submit_by_sudo(settings: Settings) -> list[Finding]:
    link = settings.submit.sudo
    if link is None:
        return []
    return [_found("submit by sudo", lambda: (Verdict.GOOD, sudo.checked(link)))]


def _moves(settings: Settings) -> list[Finding]:
    runner = Runner(timeout_s=settings.cluster.command_timeout_s)
    cluster = SlurmCli(timeout_s=settings.cluster.command_timeout_s)
    try:
        hides = "jobs" in cluster.site_config().private_data
    except MirageError as error:
        return [Finding("moves", Verdict.WARNING, str(error))]
    return [
        Finding(
            f"may {ability.move}",
            Verdict.GOOD if ability.may else Verdict.WARNING,
            ability.told,
        )
        for ability in abilities(runner, hides_jobs=hides)
    ]


def _show(findings: list[Finding]) -> None:
    table = Table()
    for column in ("what", "", "told"):
        table.add_column(column)
    for finding in findings:
        table.add_row(finding.what, finding.verdict.value, escape(printable(finding.told)))
    Console().print(table)
