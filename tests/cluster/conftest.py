"""Fixtures of the cluster's tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.cluster.cli import SlurmCli
from tests.cluster.commands import FakeCommands
from tests.cluster.rest_host import RestHost, started
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


@pytest.fixture(scope="session")
def rest_host(slurm_host: Testbed) -> Iterator[RestHost]:
    slurm_host.up(TWO_NODES)
    with started(slurm_host) as host:
        yield host


@pytest.fixture
def rest_rig(slurm_rig: SlurmRig, rest_host: RestHost) -> SlurmRig:
    """The same scene, reached through slurmrestd; what that cannot do goes through scontrol."""
    slurm_rig.cluster = rest_host.cluster(commands=SlurmCli())
    return slurm_rig
