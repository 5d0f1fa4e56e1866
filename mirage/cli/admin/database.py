"""`mirage db backup`: a copy of the database of an embedded service."""

import time
from typing import Annotated

import typer

from mirage.bootstrap import wiring
from mirage.cli.options import ConfigOption
from mirage.cli.ui.progress import show_activity
from mirage.config import settings as settings_file
from mirage.errors import InputError, StoreUnavailable
from mirage.store.database import backup

FOLDER = "backups"
"""In the state directory."""


def copy_database(
    *,
    keep: Annotated[int, typer.Option(min=1, help="Copies that stay; older ones go.")] = 7,
    config: ConfigOption = None,
) -> None:
    """Copy a SQLite database into `backups` of the state directory; the service may run on.

    PostgreSQL has pg_dump. How to restore a copy: docs/install.md.
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
