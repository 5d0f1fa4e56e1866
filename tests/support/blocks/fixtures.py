"""The Slurm of shell scripts as a fixture."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.blocks.fake_slurm import FakeSlurm
from tests.support.cluster.commands import FakeCommands
from tests.support.paths import CHECKOUT


@pytest.fixture
def slurm(
    commands: FakeCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeSlurm]:
    """Its commands come first on PATH."""
    # Jobs import the makers of these tests.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), *sys.path]))
    fake = FakeSlurm(commands, tmp_path / "slurm")
    yield fake
    fake.end()
