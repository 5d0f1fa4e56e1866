"""Fixtures of the cluster's tests."""

import os
from pathlib import Path

import pytest

from tests.cluster.commands import FakeCommands
from tests.cluster.slurm_rig import TWO_NODES, SlurmRig, put_on_path
from tests.slurm_testbed import Testbed


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    """Fake commands come first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return FakeCommands(folder)


@pytest.fixture
def slurm_rig(slurm_host: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmRig:
    slurm_host.up(TWO_NODES)
    slurm_host.cancel_all()
    monkeypatch.setenv("PATH", put_on_path(tmp_path, "mirage"))
    return SlurmRig(slurm_host)
