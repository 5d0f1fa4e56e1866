"""Stores with alice's chain, and the scene of a chain on the simulated cluster."""

import pytest

from mirage.store.database.engine import Store
from tests.support.services.scene import Scene
from tests.support.services.slurm_jobs import HOUR, NOW, register


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
