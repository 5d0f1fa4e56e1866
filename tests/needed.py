"""Before a test run: Debian's packages are installed, and what this machine leaves out is said.

Once and here, not in fixtures: the test processes run beside each other, and apt-get does not.
In CI something left out is an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.paths import DEPLOY, SHARED

PACKAGES = {
    "postgresql": "/usr/lib/postgresql",
    "munge": "/usr/sbin/munged",
    "iproute2": "/sbin/ip",
    "gcc": "/usr/bin/gcc",
    "libc6-dev": "/usr/include/stdio.h",
    "libslurm-dev": "/usr/include/slurm/spank.h",
    "make": "/usr/bin/make",
    "chromium": "/usr/bin/chromium",
    "npm": "/usr/bin/npm",
    "zsh": "/usr/bin/zsh",
    "fish": "/usr/bin/fish",
    "tcsh": "/usr/bin/tcsh",
    "nginx-light": "/usr/sbin/nginx",
    "prometheus": "/usr/bin/promtool",
    "systemd": "/usr/bin/systemd-analyze",
    "groff-base": "/usr/bin/groff",
    "lua-check": "/usr/bin/luacheck",
    "rpm": "/usr/bin/rpmbuild",
    "rpmlint": "/usr/bin/rpmlint",
    "ruby-railties": "/var/lib/dpkg/info/ruby-railties.list",
}
"""Package: what it brings. Slurm's own are known to the testbed."""
TESTBED = DEPLOY / "testbed" / "testbed.py"


AXE = "axe-core@4.10.3"
"""Judges pages by the rules of accessibility."""
TURBO, BOOTSTRAP = "@hotwired/turbo@7.3.0", "bootstrap@5.3.8"
"""What a page of Open OnDemand 4.1 and 4.2 loads."""
FROM_NPM = {
    AXE: "axe.min.js",
    TURBO: "dist/turbo.es2017-umd.js",
    BOOTSTRAP: "dist/css/bootstrap.min.css",
}
"""Package: its one file that tests use. Fetched once, and kept out of the repository."""


def fetch_file(package: str) -> Path:
    """Return the package's file, fetched with npm (which runs nothing of it) if it is absent."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "mirage-tests" / package
    file = folder / "package" / FROM_NPM[package]
    if not file.exists() and shutil.which("npm") is not None:
        folder.mkdir(parents=True, exist_ok=True)
        packed = ["npm", "pack", package, "--ignore-scripts", "--silent", "--pack-destination", "."]
        done = subprocess.run(packed, cwd=folder, check=False, capture_output=True)
        if done.returncode == 0:
            (archive,) = folder.glob("*.tgz")
            subprocess.run(["tar", "-xzf", archive.name], cwd=folder, check=True)
    return file


def installable() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def missing() -> list[str]:
    """List the packages that are not there. tests/newcomer.sh says that none is."""
    if os.environ.get("MIRAGE_TESTS_BARE"):
        return list(PACKAGES)
    return [name for name, path in PACKAGES.items() if not Path(path).exists()]


def install(packages: list[str]) -> None:
    """Package lists may be absent or old: they are fetched where it does not work without."""
    if not packages:
        return
    options = ["-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"]
    words = ["apt-get", "install", *options, *packages]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(words, env=environment, check=False, capture_output=True).returncode:
        subprocess.run(["apt-get", "update", "-q"], check=False, capture_output=True)
        subprocess.run(words, env=environment, check=False, stdout=sys.stderr)


def left_out() -> list[str]:
    """One sentence for each kind of test that cannot run here."""
    why = "neither installed nor installable (root and apt-get)"
    found = [f"tests of {name}: {why}" for name in missing()]
    absent_packages = [package for package in FROM_NPM if not fetch_file(package).exists()]
    found += [f"tests with {p}: it cannot be fetched (npm, its registry)" for p in absent_packages]
    if os.geteuid() != 0:
        found.append("real Slurm (marker slurm): starts daemons as several users, run as root")
    elif not installable() and shutil.which("slurmctld") is None:
        found.append(f"real Slurm (marker slurm): {why}")
    return found


def absent(what: str) -> NoReturn:
    """Of a fixture without its program: where tests must run, that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def main() -> int:
    if installable():
        install(missing())
        # Now, since testbeds that stand apart from the host (apart.sh) have no network.
        subprocess.run([sys.executable, str(TESTBED), "install"], check=True)
    told = left_out()
    for sentence in told:
        sys.stderr.write(f"left out: {sentence}\n")
    if not SHARED.is_dir():  # traces that are not ours to copy: their tests skip, in CI too
        sys.stderr.write(f"left out: what reads real traces and cluster files: no {SHARED}\n")
    return 1 if told and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
