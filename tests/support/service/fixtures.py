"""A configuration file for a process of Mirage, and a Slurm that answers."""

from pathlib import Path

import pytest

from tests.support.mirage_process import QuietSlurm, configured, run


@pytest.fixture
def slurm(tmp_path: Path) -> QuietSlurm:
    return QuietSlurm(tmp_path / "bin")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a service that has no database yet."""
    return configured(tmp_path)


@pytest.fixture
def ready_config(config: Path) -> Path:
    """The configuration of a service whose database exists."""
    assert run("db", "upgrade", "--config", str(config)).code == 0
    return config
