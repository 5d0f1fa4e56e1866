"""Fixtures: a service over a fresh SQLite file, its clients, and a chain with links."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.database.schema.engine import Store
from mirage.slurm.clients.auth.munge import authenticate_caller
from mirage.web.api.app import ApiContext
from tests.support.api.rows import add_chain, add_links
from tests.support.api.running import CLUSTER, NOW, Client, Stage, identify


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """Return a SQLite store. A test for PostgreSQL too imports the fixture `store` of all rooms."""
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
    new_stage = Stage()
    with new_stage.open(tmp_path_factory.mktemp("stage")):
        yield new_stage


@pytest.fixture
def client(stage: Stage, context: ApiContext) -> Iterator[Client]:
    with stage.serving(context) as http_client:
        yield http_client


@pytest.fixture
def client_with_munge(stage: Stage, context: ApiContext, munge: Path) -> Iterator[Client]:
    """Yield a client of a service that identifies callers by the running munged."""
    with stage.serving(replace(context, identify=authenticate_caller)) as http_client:
        yield http_client


@pytest.fixture
def chain_with_links(store: Store, cluster_id: int) -> None:
    """Put alice's chain `CHAIN` into the database, with the three links of `add_links`."""
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
