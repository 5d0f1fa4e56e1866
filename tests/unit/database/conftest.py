"""Fixtures of this room."""

import pytest

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from tests.support.chains import make_chain


@pytest.fixture
def saved_chain(store: Store, cluster_id: int) -> None:
    """The chain of `make_chain()` is in the database."""
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, make_chain())
