"""Fake Slurm commands for the plugin's tests, and the real ones for those marked `slurm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm_plugin.fakes import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm.at(tmp_path)


@pytest.fixture(params=["dash", "bash --posix"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()
