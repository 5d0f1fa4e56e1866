"""A service over a fresh SQLite file, and a cluster with something on it."""

from collections.abc import Iterator

import pytest

from mirage.api.app import ApiContext
from mirage.store.database.engine import Store
from tests.support.api.running import CLUSTER, NOW, Client, Stage, identify


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """One database is enough; a file that is for both imports the `store` of all rooms."""
    return sqlite_store


@pytest.fixture
def context(store: Store, cluster_id: int) -> ApiContext:
    return ApiContext(
        store=store,
        cluster_id=cluster_id,
        cluster_name=CLUSTER,
        admins=("root",),
        clock=lambda: NOW,
        identify=identify,
        queue_interval_s=60,
        policies=("reactive", "quantile"),
    )


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage()
    with made.open(tmp_path_factory.mktemp("stage")):
        yield made


@pytest.fixture
def client(stage: Stage, context: ApiContext) -> Iterator[Client]:
    with stage.serving(context) as running:
        yield running
