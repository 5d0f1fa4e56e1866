"""Makes whole and consistent copies of a SQLite database while the service writes."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from mirage.database.schema.tables import VERSION_TABLE
from mirage.errors import StoreUnavailable

_NAME = "mirage-{schema}-{stamp}.db"
_PATTERN = "mirage-*-*.db"


def copy_database(database: Path, folder: Path, *, stamp: str, keep: int) -> Path:
    """Write a copy into `folder`, readable by its owner alone, and return its path.

    Of the copies there all but the newest `keep` are deleted. `stamp` sorts as time does. The
    file's name has the schema version and the stamp. Raises StoreUnavailable if the database cannot
    be read or the copy cannot be written.
    """
    temporary = folder / ".making"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        schema = _copy_into(database, temporary)
        copy = folder / _NAME.format(schema=schema, stamp=stamp)
        temporary.replace(copy)
        for old in _list_oldest_first(folder)[:-keep]:
            old.unlink()
    except OSError as error:
        raise StoreUnavailable(f"no copy of {database} in {folder}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise StoreUnavailable(f"no copy of {database} in {folder}: {error}") from error
    return copy


def _copy_into(database: Path, into: Path) -> str:
    """Copy the database; return the schema version of the copy, "none" if it has none."""
    source = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    query = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant
    with closing(source), closing(sqlite3.connect(into)) as target:
        source.backup(target)
        try:
            version_row = target.execute(query).fetchone()
        except sqlite3.OperationalError:
            return "none"
    return "none" if version_row is None else str(version_row[0])


def _list_oldest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(_PATTERN), key=lambda path: path.name.rpartition("-")[2])
