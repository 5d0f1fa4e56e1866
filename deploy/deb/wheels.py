"""Lays what a package needs of Python's index, from wheels: of any Python, which need not be here.

Versions and hashes are those of requirements/, so a commit gives the same files everywhere.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import closure

GLIBC_MINOR = 28
"""Of glibc 2: the newest that a wheel may need. EL 8 has it; Debian 12 and Ubuntu newer ones."""
_OLDEST_MINOR = 5
_OLDER_NAMES = ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC_MINOR, _OLDEST_MINOR - 1, -1)),
    *_OLDER_NAMES,
)


@dataclass(frozen=True)
class Pins:
    """A file of requirements/, the Python that the wheels are for, and where they are unpacked."""

    file: Path
    python: str
    """As "3.13"."""
    work: Path
    """The wheels stay unpacked in this folder, for the next call."""


def lay(pins: Pins, names: Sequence[str], into: Path, without: Sequence[str] = ()) -> None:
    """Lay what the requirements `names` need in the folder `into`, which is made.

    The files are links to the unpacked ones: `into` is on their file system. `without`: the
    requirements of a package that is there as well, and brings its files itself.
    """
    closure.link(names, into, unpack(pins), pins.python, without=without)


def unpack(pins: Pins) -> Path:
    """Fetch and unpack all wheels, once; return their folder."""
    digest = hashlib.sha256(pins.file.read_bytes()).hexdigest()[:12]
    ready = pins.work / f"wheels-{pins.python}-{digest}"
    if not ready.exists():
        making = ready.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _install(pins, making)
        making.rename(ready)
    return ready


def _install(pins: Pins, into: Path) -> None:
    words = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--no-compile", "--only-binary=:all:"),
        *("--implementation=cp", f"--python-version={pins.python}"),
        *(f"--platform={platform}" for platform in _PLATFORMS),
        *("--target", str(into), "--requirement", str(pins.file)),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"no wheels of {pins.file} for Python {pins.python} and glibc 2.{GLIBC_MINOR}: "
            f"{done.stderr or done.stdout}"
        )
