"""A private PostgreSQL of Debian's packages, on a socket in a temporary directory."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = Path("/usr/lib/postgresql")
_OWNER = "postgres"


def programs() -> Path | None:
    """The directory of the newest PostgreSQL installed, or None."""
    folders = [p.parent for p in _DEBIAN.glob("*/bin/postgres")]
    return max(folders, key=lambda p: int(p.parent.name), default=None)


@contextmanager
def running_postgres() -> Iterator[str]:
    """A server while the block lasts; gives the URL of its empty database."""
    bin_dir = programs()
    if bin_dir is None:
        raise FileNotFoundError(f"no PostgreSQL under {_DEBIAN}: apt-get install postgresql")
    home = Path(tempfile.mkdtemp(prefix="mirage-pg-"))
    as_owner: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(home, _OWNER)
        as_owner = ["runuser", "-u", _OWNER, "--"]
    data = home / "data"
    options = f"-k {home} -c listen_addresses= -c shared_buffers=64MB"
    control = [*as_owner, str(bin_dir / "pg_ctl"), "-D", str(data), "-w"]

    def run(*argv: str) -> None:
        subprocess.run([*argv], check=True, stdout=subprocess.DEVNULL, cwd="/")

    try:
        run(*as_owner, str(bin_dir / "initdb"), "-D", str(data), "-A", "trust", "-U", _OWNER, "-N")
        run(*control, "-o", options, "-l", str(home / "log"), "start")
        try:
            yield f"postgresql://{_OWNER}@/postgres?host={home}"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home)
