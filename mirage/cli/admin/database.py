"""`mirage db`: creates the database, upgrades its schema, and copies it."""

import time
from typing import Annotated

import typer

from mirage.cli.options import ConfigOption
from mirage.cli.ui.progress import show_activity
from mirage.errors import InputError, StoreUnavailable

app = typer.Typer()
db = typer.Typer(no_args_is_help=True, help="Create the database, upgrade its schema, or copy it.")
app.add_typer(db, name="db")

FOLDER = "backups"
"""The folder of the copies, in the state directory."""


@db.command("backup")
def copy_database(
    *,
    keep: Annotated[int, typer.Option(min=1, help="Keep this many copies; delete older ones.")] = 7,
    config: ConfigOption = None,
) -> None:
    """Copy a SQLite database into the folder `backups` of the state directory.

    The service may keep running. For PostgreSQL use pg_dump. docs/admin/install.md says how to
    restore a copy.
    """
    from mirage.config import settings as settings_file
    from mirage.database.schema import backup
    from mirage.service import database_setup

    settings = settings_file.load_settings(config)
    file = database_setup.find_database_file(settings)
    if file is None:
        raise InputError("the database is not a SQLite file: copy a PostgreSQL database by pg_dump")
    if not file.exists():
        raise StoreUnavailable(f"there is no database {file}: `mirage db upgrade` creates it")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with show_activity("copying the database"):
        copy = backup.copy_database(
            file, settings.service.state_dir / FOLDER, stamp=stamp, keep=keep
        )
    typer.echo(f"copied to {copy}")


@db.command("upgrade")
def upgrade_database(*, config: ConfigOption = None) -> None:
    """Create the database, or upgrade its schema to this version of Mirage.

    Running the command again changes nothing.
    """
    from mirage.config import settings as settings_file
    from mirage.service import database_setup

    settings = settings_file.load_settings(config)
    with show_activity("upgrading the database's schema"):
        database_setup.upgrade_database(settings)
    typer.echo("the database has this program's schema")
