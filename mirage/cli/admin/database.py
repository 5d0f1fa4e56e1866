"""`mirage db`: creates the database, upgrades its schema, and copies it."""

import json
import shlex
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.cli.options import ConfigOption, JsonOption
from mirage.cli.ui.progress import show_activity, show_share_bar
from mirage.errors import InputError, StoreUnavailable

if TYPE_CHECKING:
    from mirage.database.copying.database_copy import CopyReport

app = typer.Typer()
db = typer.Typer(no_args_is_help=True, help="Create the database, upgrade its schema, or copy it.")
app.add_typer(db, name="db")

FOLDER = "backups"
"""The folder of the copies, in the state directory."""


@db.command("backup")
def back_up_database(
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


@db.command("copy")
def copy_database(
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The empty database: postgresql://USER@HOST/NAME?passfile=FILE or "
            "sqlite:////FILE. A password in the URL can be seen in the process list.",
        ),
    ],
    skip_bad_rows: Annotated[
        bool,
        typer.Option(
            "--skip-bad-rows", help="Finish without rows that the other database refuses."
        ),
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy everything into another, empty database, such as PostgreSQL in the place of SQLite.

    Stop the service first. The configured database is only read. The command makes the tables of
    the other one, copies every row, and compares the two. If it is stopped at any point, run it
    again: it goes on where it was. Until the copy is whole, Mirage refuses to use it.

    PostgreSQL refuses some text that SQLite stores: NUL characters and invalid UTF-8. In their
    place the copy has the character U+FFFD, and the command names the rows. Rows that are refused
    altogether are named too, and the copy stays unusable, unless you allow --skip-bad-rows.
    """
    from mirage.config import settings as settings_file
    from mirage.database.schema.engine import mask_url
    from mirage.service import database_setup

    settings = settings_file.load_settings(config)
    done_steps, total_steps = 0, 1

    def set_total(steps: int) -> None:
        nonlocal total_steps
        total_steps = max(1, steps)

    with show_share_bar("copying the database") as set_share:

        def show_steps(steps: int) -> None:
            nonlocal done_steps
            done_steps += steps
            if set_share is not None:
                set_share(done_steps / total_steps)

        report = database_setup.copy_database(
            settings,
            to,
            now=int(time.time()),
            skip_bad_rows=skip_bad_rows,
            show_total=set_total,
            show_steps=show_steps,
        )
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
        return
    for line in _format_report(report, mask_url(to)):
        typer.echo(line)


def _format_report(report: "CopyReport", to: str) -> list[str]:
    """Format what was copied, what was not, and what to do next. `to`: the URL without secrets."""
    tables = report.tables
    lines = [f"copied {sum(table.rows for table in tables)} rows of {len(tables)} tables"]
    replaced = sum(table.rows_replaced for table in tables)
    if replaced:
        lines.append(f"{replaced} row(s) have U+FFFD in the place of characters; the first ones:")
        lines += [f"  {line}" for table in tables for line in table.replaced]
    left_out = sum(table.rows_left_out for table in tables)
    if left_out:
        lines.append(f"{left_out} row(s) are left out; the first ones:")
        lines += [f"  {line}" for table in tables for line in table.left_out]
    if report.other_tables:
        lines.append(f"not Mirage's, so not copied: {', '.join(report.other_tables)}")
    password = " (*** stands for the password)" if "***" in to else ""
    return [
        *lines,
        "compared: of each table, the number of rows and a checksum",
        "",
        "The service still uses the old database. To use the new one:",
        f"  1. set MIRAGE_DATABASE_URL={shlex.quote(to)}",
        f"     in /etc/default/mirage, or database.url in mirage.toml{password}",
        "  2. systemctl restart mirage, then mirage-as-service doctor",
    ]
