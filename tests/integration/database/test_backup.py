"""Copies of a SQLite database: whole while others write, the owner's alone, and not too many."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from mirage.database.schema import backup
from mirage.database.schema.tables import SCHEMA
from mirage.errors import StoreUnavailable
from tests.support.mirage_process import configured, run


def clusters(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as opened:
        return [name for (name,) in opened.execute("SELECT name FROM clusters ORDER BY name")]


def add(opened: sqlite3.Connection, name: str) -> None:
    opened.execute("INSERT INTO clusters (name) VALUES (?)", [name])


def test_a_copy_holds_what_was_committed_and_nothing_else(
    sqlite_file: Path, tmp_path: Path
) -> None:
    """What lies in the write-ahead log alone is in it; a transaction under way is not."""
    with closing(sqlite3.connect(sqlite_file)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("PRAGMA wal_autocheckpoint = 0")
        add(opened, "committed")
        opened.commit()
        add(opened, "under way")
        made = backup.copy_database(sqlite_file, tmp_path / "backups", stamp="1", keep=3)
    assert made.name == f"mirage-{SCHEMA}-1.db"
    assert clusters(made) == ["committed"]
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    with closing(sqlite3.connect(made)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_newest_stay_whatever_their_schema(sqlite_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "mirage-9999-0.db").touch()
    (folder / "notes.txt").touch()
    for stamp in "12345":
        backup.copy_database(sqlite_file, folder, stamp=stamp, keep=2)
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == [f"mirage-{SCHEMA}-4.db", f"mirage-{SCHEMA}-5.db", "notes.txt"]


def test_what_cannot_be_copied_is_one_sentence_and_leaves_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "mirage-0001-0.db").touch()
    with pytest.raises(StoreUnavailable, match="no copy of"):
        backup.copy_database(tmp_path / "gone.db", folder, stamp="1", keep=1)
    assert (folder / "mirage-0001-0.db").exists()


def test_the_command_says_where_the_copy_is(tmp_path: Path) -> None:
    config = str(configured(tmp_path))
    answer = run("db", "backup", "--config", config)
    assert (answer.code, "`mirage db upgrade` creates it" in answer.err) == (4, True)
    assert run("db", "upgrade", "--config", config).code == 0
    answer = run("db", "backup", "--config", config)
    assert (answer.code, answer.err) == (0, "")
    made = Path(answer.out.removeprefix("copied to ").strip())
    assert made.parent == tmp_path / "state" / "backups"
    assert clusters(made) == []
    url = "postgresql://m:hunter2@h/m"
    refused = run("db", "backup", "--config", config, MIRAGE_DATABASE_URL=url)
    assert (refused.code, "pg_dump" in refused.err, "hunter2" in refused.err) == (2, True, False)
