"""The service's state directory and its database: creating, opening and checking them.

Commands that only need the database (`mirage token`, `mirage db`, `mirage mode`) import this module
and not `wiring`, which loads most of Mirage.
"""

import os
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.config.settings import Settings
from mirage.database.schema.engine import Store, parse_url
from mirage.errors import ConfigError, InputError, StoreUnavailable
from mirage.service import path_security
from mirage.shipped_files import get_data_dir

if TYPE_CHECKING:
    from mirage.database.copying.database_copy import CopyReport


def open_store(settings: Settings) -> Store:
    """Open the database. Raises SchemaMismatch unless it has this program's schema."""
    if _is_in_state_dir(settings) and not settings.service.state_dir.is_dir():
        raise StoreUnavailable(
            f"the state directory {settings.service.state_dir} does not exist: "
            "set service.state_dir, or make it with `mirage db upgrade`"
        )
    store = Store(settings.database_url)
    store.check_schema()
    return store


def upgrade_database(settings: Settings) -> None:
    """Create the database, or upgrade it to this program's schema."""
    if _is_in_state_dir(settings):
        make_state_dir(settings.service.state_dir)
    _upgrade_url(settings.database_url)


def _upgrade_url(url: str) -> None:
    # Opening a database needs no Alembic.
    from mirage.database.schema import schema_migrations  # noqa: PLC0415

    schema_migrations.upgrade_schema(url, get_data_dir("migrations"))
    _restrict_database_file(_find_file(url))


def copy_database(
    settings: Settings,
    to: str,
    *,
    now: int,
    skip_bad_rows: bool,
    show_total: Callable[[int], None],
    show_steps: Callable[[int], None],
) -> "CopyReport":
    """Copy the database into the empty one of the URL `to`, or finish that copy.

    `database_copy.copy_database` explains the arguments and the errors.
    """
    # Opening a database needs no copying.
    from mirage.database.copying import database_copy  # noqa: PLC0415

    if _is_same_database(settings.database_url, to):
        raise InputError("--to is the database that is to be copied: name another one")
    if fault := _find_file_fault(to):
        raise InputError(f"--to is no safe place: {fault}")
    steps = database_copy.CopySteps(
        upgrade_target=lambda: _upgrade_url(to), show_total=show_total, show_steps=show_steps
    )
    with closing(open_store(settings)) as source, closing(Store(to)) as target:
        return database_copy.copy_database(
            source, target, steps, now=now, skip_bad_rows=skip_bad_rows
        )


def _is_same_database(url: str, other_url: str) -> bool:
    file, other_file = _find_file(url), _find_file(other_url)
    if file is None or other_file is None:
        return parse_url(url) == parse_url(other_url)
    return file.resolve() == other_file.resolve()


def find_database_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database; None for a database server."""
    return _find_file(settings.database_url)


def _find_file(url: str) -> Path | None:
    head, _, path = url.partition(":///")
    return Path(path) if head.startswith("sqlite") else None


def _restrict_database_file(file: Path | None) -> None:
    """Take other users' access to the database file away: it holds data that PrivateData hides
    from them. SQLite gives its journals the same mode."""
    if file is None:
        return
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o007 and file.stat().st_uid == os.geteuid():
        file.chmod(mode & ~0o007)


def _is_in_state_dir(settings: Settings) -> bool:
    return settings.database_url.startswith(f"sqlite:///{settings.service.state_dir}/")


def make_user_state_dir(path: Path) -> None:
    """Make the state directory of one user.

    Raises StoreUnavailable if somebody else could have replaced it or can look into it.
    """
    make_state_dir(path, mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise StoreUnavailable(f"{path} is not a directory that you own: remove it or move it away")
    if status.st_mode & 0o077:
        raise StoreUnavailable(f"others may read {path}: run `chmod go= {path}`")
    if fault := path_security.find_fault(path):
        raise StoreUnavailable(fault)


def check_path_security(settings: Settings) -> None:
    """Raise ConfigError if other users could pull the kill switch or replace the database."""
    faults_by_key = {
        "service.state_dir": path_security.find_fault(settings.service.state_dir),
        "database.url": _find_file_fault(settings.database_url),
    }
    for key, fault in faults_by_key.items():
        if fault:
            raise ConfigError(key, [fault])


def _find_file_fault(url: str) -> str | None:
    """Return a sentence if other users could replace the file of a SQLite database or its journal,
    else None."""
    file = _find_file(url)
    if file is None:
        return None
    return path_security.find_fault(file.parent) or path_security.find_fault(file)


def make_state_dir(path: Path, *, mode: int = 0o755) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the state directory {path} cannot be created: {error.strerror}"
        ) from error
