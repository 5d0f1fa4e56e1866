"""Roots of other Debian releases: kept when whole, never used when half, and one sentence else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needed
from tests.support.paths import CHECKOUT

TESTBED = CHECKOUT / "deploy" / "testbed"
NO_NETWORK = """#!/bin/sh
mkdir -p "$6/usr/bin"
echo 'I: Retrieving InRelease'
echo 'E: Failed getting release file http://debian.invalid/dists/trixie/Release' >&2
exit 1
"""
UNREACHABLE = "no root of Debian trixie could be made: E: Failed getting release file"


class Roots:
    """A cache of roots, on a host whose debootstrap reaches nothing."""

    def __init__(self, folder: Path) -> None:
        self._caches = folder / "cache"
        self.cache = self._caches / "mirage-tests" / "roots"
        self._bin = folder / "bin"
        self._bin.mkdir()
        fake = self._bin / "debootstrap"
        fake.write_text(NO_NETWORK)
        fake.chmod(0o755)

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "XDG_CACHE_HOME": str(self._caches),
            "PATH": f"{self._bin}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [*map(str, argv)], env=environment, capture_output=True, text=True, check=False
        )

    def ask(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, TESTBED / "testbed.py", "root", "trixie", *options)

    def keep(self, *, whole: bool) -> Path:
        """As an earlier run left it, of today's recipe."""
        code = "import roots; print(roots._recipe())"
        recipe = self.run("env", f"PYTHONPATH={TESTBED}", sys.executable, "-c", code).stdout
        root = self.cache / f"trixie-{recipe.strip()}"
        root.mkdir(parents=True)
        if whole:
            (root / ".mirage-root").touch()
        return root


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    if os.geteuid() != 0:
        needed.absent("roots are made by root alone")
    return Roots(tmp_path)


def test_a_root_that_cannot_be_made_is_one_sentence(roots: Roots) -> None:
    said = roots.ask()
    assert (said.returncode, said.stdout) == (1, "")
    assert UNREACHABLE in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert [path.name for path in roots.cache.glob("trixie-*")] == []


def test_nothing_runs_where_the_root_could_not_be_made(roots: Roots, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    said = roots.run(TESTBED / "apart.sh", "--root", "trixie", "touch", ran)
    assert said.returncode != 0
    assert UNREACHABLE in said.stderr
    assert not ran.exists()


def test_tests_of_a_release_fail_where_its_root_could_not_be_made(roots: Roots) -> None:
    """They are not skipped, in CI or elsewhere."""
    said = roots.run("make", "-C", CHECKOUT, "test-slurm-24.11", "RELEASE_TESTS=tests/none")
    assert said.returncode != 0
    assert UNREACHABLE in said.stderr


def test_a_whole_root_is_kept(roots: Roots) -> None:
    root = roots.keep(whole=True)
    said = roots.ask()
    assert (said.returncode, said.stdout.strip(), said.stderr) == (0, str(root), "")


@pytest.mark.parametrize("options", [[], ["--fresh"]])
def test_half_a_root_is_never_used(roots: Roots, options: list[str]) -> None:
    roots.keep(whole=bool(options))
    said = roots.ask(*options)
    assert (said.returncode, said.stdout) == (1, "")
    assert UNREACHABLE in said.stderr


def test_a_root_of_another_recipe_is_not_todays(roots: Roots) -> None:
    root = roots.keep(whole=True)
    root.rename(root.with_name("trixie-0123456789ab"))
    assert roots.ask().returncode == 1
