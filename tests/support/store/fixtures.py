"""A cluster in a fresh database, for every test of the store."""

import pytest

from mirage.store.database.engine import Store
from mirage.store.operations import clusters


@pytest.fixture
def cluster_id(store: Store) -> int:
    with store.begin() as tx:
        return clusters.ensure_cluster(tx, "lab")
