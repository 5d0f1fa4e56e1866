"""Roots of other Debian releases, whose Slurm is another: made once, kept, never used half made.

They lie in the user's cache, as gigabytes that no copy of a checkout should take along, and serve
every checkout whose recipe is theirs."""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import platform
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import host
from settings import TestbedError

RELEASES = ("trixie", "sid")
_REPOSITORY = Path(__file__).resolve().parents[2]
_RECIPE = Path(__file__).with_name("root.sh")
_MADE = ".mirage-root"
"""Stands in a root that is whole; apart.sh locks it while a command runs there."""
_KEPT_S = 14 * 86400
"""A root of an older recipe is removed if nobody used it for this long."""
_LIST = re.compile(r"'(?P<mirror>\S+)/dists/(?P<codename>[^/']+)/InRelease'")


def make(release: str, *, fresh: bool = False) -> Path:
    """Return the root of a Debian release; make it if there is none of the present recipe."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = caches / "mirage-tests" / "roots"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / f"{release}-{_recipe()}"
    with _locked(cache / f"{release}.lock"):
        if fresh or not (root / _MADE).exists():
            _make(release, root, cache)
        (root / _MADE).touch()
    return root


def _recipe() -> str:
    """Return a short hash of a root's recipe: a new recipe makes a new root."""
    client = _REPOSITORY / "slurm_plugin" / "pyproject.toml"
    project = tomllib.loads(client.read_text())["project"]
    pins = (_REPOSITORY / "requirements" / "test.txt").read_text()
    text = f"{_RECIPE.read_text()}{host.PACKAGES}{project['scripts']}{pins}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(release: str, root: Path, cache: Path) -> None:
    if shutil.which("apt-get") is None:
        raise _unmade(release, "this host is no Debian (no apt-get)")
    part, log = cache / f"{release}.part", cache / f"{release}.log"
    shutil.rmtree(part, ignore_errors=True)
    with log.open("w") as output:
        if shutil.which("debootstrap") is None:
            _install_debootstrap(release)
        words = ["bash", str(_RECIPE), release, str(part), _mirror(release)]
        process = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
    if process.returncode != 0:
        raise _unmade(release, f"{_last_line(log.read_text())} (all of it: {log})")
    (part / _MADE).write_text(_installed(part))
    for old in cache.glob(f"{release}-*"):
        if old == root or _idle_s(old) > _KEPT_S:
            _remove_unused(old)
    if root.exists():
        raise _unmade(release, f"a command still runs in {root}")
    part.rename(root)


def _install_debootstrap(release: str) -> None:
    try:
        host.install(["debootstrap"])
    except TestbedError as error:
        raise _unmade(release, f"no debootstrap here: {_last_line(str(error))}") from error


def _mirror(release: str) -> str:
    """Return the mirror from which this host's apt gets its release: it has Debian's others too."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME")
    words = ["apt-get", "--print-uris", "update"]
    text = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    for match in _LIST.finditer(text):
        if match["codename"] == codename:
            return match["mirror"]
    raise _unmade(release, f"this host's apt names no archive of {codename}")


def _installed(root: Path) -> str:
    """Return the root's versions of slurmctld and python3, a line each."""
    words = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "slurmctld", "python3"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def _idle_s(root: Path) -> float:
    marker = root / _MADE
    return time.time() - marker.stat().st_mtime if marker.exists() else math.inf


def _remove_unused(root: Path) -> None:
    """Remove a root, half made or whole, unless a command runs in it."""
    if not root.exists():
        return
    with (root / _MADE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        (root / _MADE).unlink()
        shutil.rmtree(root, ignore_errors=True)


def _unmade(release: str, why: str) -> TestbedError:
    return TestbedError(f"no root of Debian {release} could be made: {why}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no word of why"
