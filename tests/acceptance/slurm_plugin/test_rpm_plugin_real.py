"""The noarch package: what rpm installs of it runs a chain on the real Slurm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import needed
from tests.acceptance.deploy import packages
from tests.support.paths import CHECKOUT
from tests.support.slurm_plugin.lone_alice import Alice

pytestmark = pytest.mark.slurm


@pytest.fixture
def rpm(tmp_path: Path) -> Path:
    if shutil.which("rpmbuild") is None:
        needed.absent("Debian's package rpm is not installed")
    epoch, out = packages.committed_at("HEAD"), tmp_path / "out"
    (built,) = packages.build_rpms(CHECKOUT, out, "mirage-plugin", epoch=epoch)
    return built


def test_the_noarch_package_runs_a_chain(alice: Alice, rpm: Path) -> None:
    root = alice.home / "root"
    words = ["rpm", "--force-debian", "--nodeps", "--noscripts", "--root", str(root)]
    subprocess.run([*words, "--install", str(rpm)], check=True, capture_output=True)
    shutil.rmtree(alice.home / "plugin")
    (alice.home / "plugin").symlink_to("root/usr/lib/mirage/slurm_plugin")
    alice.submit(links=2)
    alice.let_end(1, 2)
    alice.await_empty_queue(60)
    assert alice.lines() == ["begin 1 after nothing", "end 1", "begin 2 after COMPLETED", "end 2"]
