"""Fixtures of this room: tests/support/api/fixtures.py."""

from tests.support.api.fixtures import (
    chain_with_links,
    client,
    client_with_munge,
    context,
    stage,
    store,
)

__all__ = ["chain_with_links", "client", "client_with_munge", "context", "stage", "store"]
