"""Which release of Slurm is installed here, and where what it answered is kept."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from settings import TestbedError

_DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def version() -> str:
    """Return the installed Slurm's version, such as 22.05.8; it need not run."""
    process = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise TestbedError(f"slurmctld -V: {process.stderr.strip()}")
    return process.stdout.split()[-1]


def described() -> str:
    """Return the release and the Debian it runs on, as an index of captures begins with it."""
    return f"Slurm {version()} ({platform.freedesktop_os_release()['PRETTY_NAME']})"


def data_folder(kind: str = "") -> Path:
    """Return the folder under tests/data for captures of this `kind` from the installed Slurm."""
    year, month, *_ = version().split(".")
    return _DATA / "-".join(["slurm", f"{year}.{month}", *([kind] if kind else [])])
