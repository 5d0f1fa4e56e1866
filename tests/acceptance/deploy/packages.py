"""Packages to install: of the parent commit, and of this checkout with one more migration."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mirage.database.schema.tables import SCHEMA
from tests.support.paths import CHECKOUT

BUILD = CHECKOUT / "deploy" / "deb" / "build.py"
BUILD_RPM = CHECKOUT / "deploy" / "rpm" / "build_rpm.py"
PYTHONS = {"debian12": "3.11", "debian13": "3.13"}
"""As each release has it."""
NEXT_SCHEMA = f"{int(SCHEMA) + 1:04}"
_MIGRATION = f'''"""One more, of a later Mirage."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT_SCHEMA}"
down_revision = "{SCHEMA}"


def upgrade() -> None:
    op.create_table("of_a_later_mirage", sa.Column("id", sa.Integer, primary_key=True))


def downgrade() -> None:
    op.drop_table("of_a_later_mirage")
'''


def build(source: Path, out: Path, release: str, *names: str, epoch: int) -> list[Path]:
    """The packages of those names. `epoch`: of the commit; a later one is a newer package."""
    return _build_packages(BUILD, source, out, names, [f"--release={release}"], epoch)


def build_rpms(
    source: Path, out: Path, *names: str, epoch: int, python: str = "3.12"
) -> list[Path]:
    """The RPM packages of those names, or all."""
    return _build_packages(BUILD_RPM, source, out, names, [f"--python={python}"], epoch)


def _build_packages(
    program: Path, source: Path, out: Path, names: Sequence[str], options: list[str], epoch: int
) -> list[Path]:
    words = [f"--source={source}", f"--out={out}", f"--work={out.parent / 'work'}", "--level=1"]
    words += [*options, *(f"--package={name}" for name in names)]
    done = subprocess.run(
        [sys.executable, str(program), *words],
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(CHECKOUT), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def committed_at(commit: str) -> int:
    return int(git("log", "-1", "--format=%ct", commit))


def parent(folder: Path) -> Path:
    """The checkout of the commit before this one."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    git("archive", "--output", str(archive), "HEAD^")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return folder


def present(folder: Path) -> Path:
    """This checkout, as a package is made from it."""
    ignored = (".git", ".venv", ".*_cache", "dist", "__pycache__", "tests")
    shutil.copytree(CHECKOUT, folder, ignore=shutil.ignore_patterns(*ignored))
    return folder


def later(folder: Path) -> Path:
    """This checkout, whose program knows one more migration."""
    present(folder)
    (folder / "migrations" / "versions" / f"{NEXT_SCHEMA}_later.py").write_text(_MIGRATION)
    tables = folder / "mirage" / "database" / "schema" / "tables.py"
    text, count = re.subn(
        rf'(?m)^(SCHEMA\b.*= )"{SCHEMA}"', rf'\1"{NEXT_SCHEMA}"', tables.read_text()
    )
    assert count == 1
    tables.write_text(text)
    return folder
