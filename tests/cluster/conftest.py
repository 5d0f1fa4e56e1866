"""Fixtures of the cluster's tests."""

import os
from pathlib import Path

import pytest

from tests.cluster.commands import FakeCommands


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    """Fake commands come first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return FakeCommands(folder)
