"""Stores with alice's chain, and the scene of a chain on the simulated cluster."""

import pytest

from mirage.database.schema.engine import Store
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.scene import Scene
from tests.support.provision.slurm_jobs import HOUR, NOW, register


@pytest.fixture
def chain_store(lab_store: Store) -> Store:
    """Alice's chain of three links was registered an hour ago."""
    register(lab_store, links=3, now=NOW - HOUR)
    return lab_store


@pytest.fixture
def acting_chain_store(acting_store: Store) -> Store:
    """Alice's chain of nine links is registered, and Mirage acts."""
    register(acting_store)
    return acting_store


@pytest.fixture
def scene(sqlite_store: Store) -> Scene:
    """A chain whose policy would free its standby at the first tick."""
    return Scene(sqlite_store)


@pytest.fixture
def no_accounting(commands: FakeCommands) -> FakeCommands:
    """Slurm with one node, which takes every move and keeps no accounts."""
    commands.answers("sacct", stderr="Slurm accounting storage is disabled", code=1)
    commands.answers("sinfo", "gpu01|gpu|mixed|8/8/0/16|gpu:8|gpu:0|\n")
    commands.answers("scontrol")
    return commands
