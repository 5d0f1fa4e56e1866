"""Commands for whoever runs the service: the database, the mode, the configuration."""

import json
import time
from typing import Annotated

import typer

from mirage import bootstrap
from mirage import settings as settings_file
from mirage.cli import backup, config_text
from mirage.cli.configured import ConfigOption
from mirage.domain.decision import Mode
from mirage.services import modes
from mirage.store import clusters
from mirage.store.engine import masked

app = typer.Typer()
db = typer.Typer(
    no_args_is_help=True, help="The database: make it, or bring it to this program's schema."
)
config_app = typer.Typer(
    no_args_is_help=True, help="The configuration file: check it, show it, list every key."
)
app.add_typer(db, name="db")
db.command("backup")(backup.db_backup)
app.add_typer(config_app, name="config")

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@db.command("upgrade")
def db_upgrade(*, config: ConfigOption = None) -> None:
    """Make the database, or bring it to this program's schema. Doing it again changes nothing."""
    settings = settings_file.load(config)
    bootstrap.upgrade_database(settings)
    typer.echo("the database has this program's schema")


@config_app.command("check")
def config_check(*, config: ConfigOption = None) -> None:
    """Read the configuration, the model and the cluster file it names, and tell every fault."""
    for sentence in bootstrap.check(settings_file.load(config)):
        typer.echo(f"warning: {sentence}", err=True)
    typer.echo("the configuration is right")


@config_app.command("show")
def config_show(*, config: ConfigOption = None) -> None:
    """The settings in force, as JSON; of the database's URL without its password."""
    settings = settings_file.load(config)
    shown = settings.model_dump(mode="json")
    shown["database"]["url"] = masked(settings.database_url)
    typer.echo(json.dumps(shown, indent=2))


@config_app.command("reference")
def config_reference() -> None:
    """Every key with its default and meaning, as the Markdown of docs/configuration.md."""
    typer.echo(config_text.reference(), nl=False)


@app.command()
def mode(
    wanted: Annotated[Mode | None, typer.Argument(help="Leave out to see the modes.")] = None,
    *,
    partition: Annotated[str, typer.Option(help="Only this partition; else the cluster.")] = "",
    user: Annotated[
        bool, typer.Option("--user", help="Of your own service (`mirage serve --user`).")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """How far Mirage goes: observe, shadow (decide and log; the default) or act.

    Writes the database, so whoever may write that may set the mode; the service obeys at its next
    tick. To stop all acting at once: `mirage mode shadow`, or an empty file named `shadow` in the
    state directory.
    """
    settings = settings_file.load_own(config) if user else settings_file.load(config)
    store = bootstrap.open_store(settings)
    with store.begin() as tx:
        cluster_id = clusters.ensure(tx, settings.cluster.name)
        if wanted is Mode.SHADOW and not partition:
            modes.stop_acting(tx, cluster_id, now=int(time.time()), actor="mirage mode")
        if wanted is not None:
            now = int(time.time())
            modes.set_mode(tx, cluster_id, wanted, partition, now=now, actor="mirage mode")
        current = clusters.modes(tx, cluster_id)
    shown = sorted(current.items())
    if as_json:
        typer.echo(json.dumps({name or "*": m.value for name, m in shown}))
        return
    for name, m in shown:
        typer.echo(f"{name or 'cluster ' + settings.cluster.name}: {m.value}")
