"""A cluster in a fresh database, for every test of the store."""

import pytest

from mirage.store import clusters
from mirage.store.engine import Store
from tests.fixtures_store import (  # noqa: F401 - fixtures
    database_url,
    empty_database_url,
    postgres_migrated,
    postgres_server,
    sqlite_template,
    store,
)


@pytest.fixture
def cluster_id(store: Store) -> int:  # noqa: F811 - the fixture above
    with store.begin() as tx:
        return clusters.ensure(tx, "lab")
