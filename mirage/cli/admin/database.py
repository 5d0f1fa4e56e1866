"""`mirage db`: the database made, brought to this program's schema, and copied."""

import time
from typing import Annotated

import typer

from mirage.bootstrap import wiring
from mirage.cli.options import ConfigOption
from mirage.cli.ui.progress import show_activity
from mirage.config import settings as settings_file
from mirage.errors import InputError, StoreUnavailable
from mirage.store.database import backup

app = typer.Typer()
db = typer.Typer(
    no_args_is_help=True, help="The database: make it, or bring it to this program's schema."
)
app.add_typer(db, name="db")

FOLDER = "backups"
"""In the state directory."""


@db.command("backup")
def copy_database(
    *,
    keep: Annotated[int, typer.Option(min=1, help="Copies that stay; older ones go.")] = 7,
    config: ConfigOption = None,
) -> None:
    """Copy a SQLite database into `backups` of the state directory; the service may run on.

    PostgreSQL has pg_dump. How to restore a copy: docs/admin/install.md.
    """
    settings = settings_file.load_settings(config)
    file = wiring.find_database_file(settings)
    if file is None:
        raise InputError("the database is no SQLite file: copy it with its server's own (pg_dump)")
    if not file.exists():
        raise StoreUnavailable(f"there is no database {file}: `mirage db upgrade` makes one")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with show_activity("copying the database"):
        made = backup.copy_database(
            file, settings.service.state_dir / FOLDER, stamp=stamp, keep=keep
        )
    typer.echo(f"copied to {made}")


@db.command("upgrade")
def upgrade_database(*, config: ConfigOption = None) -> None:
    """Make the database, or bring it to this program's schema. Doing it again changes nothing."""
    settings = settings_file.load_settings(config)
    with show_activity("bringing the database to this program's schema"):
        wiring.upgrade_database(settings)
    typer.echo("the database has this program's schema")
