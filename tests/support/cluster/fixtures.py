"""Fixtures of the cluster's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.slurm.clients.cli.client import SlurmCli
from tests.support.cluster.rest_host import RestHost, running_slurmrestd
from tests.support.cluster.restd import FakeRestd, serving_restd
from tests.support.cluster.slurm_rig import TWO_NODES, RestRig, SlurmRig, Stage, put_on_path
from tests.support.slurm_testbed import Testbed


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeRestd]:
    """A slurmrestd that answers as a test says."""
    restd = FakeRestd(tmp_path)
    with serving_restd(restd):
        yield restd


@pytest.fixture(scope="session")
def slurm_stage(slurm_host: Testbed) -> Stage:
    return Stage(slurm_host)


@pytest.fixture
def slurm_rig(slurm_stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmRig:
    rig = slurm_stage.set()
    # Only now, as the testbed makes the users.
    monkeypatch.setenv("PATH", put_on_path(tmp_path, "mirage"))
    return rig


@pytest.fixture(scope="session")
def rest_host(slurm_host: Testbed) -> Iterator[RestHost]:
    slurm_host.up(TWO_NODES)
    with running_slurmrestd(slurm_host) as host:
        yield host


@pytest.fixture
def rest_rig(slurm_rig: SlurmRig, rest_host: RestHost) -> RestRig:
    """The scene, reached through slurmrestd, and through scontrol for moves that it cannot do."""
    return RestRig(slurm_rig, rest_host.cluster(commands=SlurmCli()))
