"""A service over a fresh SQLite file, and a cluster with something on it."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.api.app import ApiContext
from mirage.store.database.engine import Store
from mirage.store.operations import clusters
from tests.support.api.running import CLUSTER, NOW, Client, Stage, identify


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "mirage.db")
    with closing(Store(f"sqlite:///{tmp_path}/mirage.db")) as opened:
        yield opened


@pytest.fixture
def cluster_id(store: Store) -> int:
    with store.begin() as tx:
        return clusters.ensure_cluster(tx, CLUSTER)


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
