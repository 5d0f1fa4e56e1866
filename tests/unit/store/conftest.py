"""Fixtures of this room: tests/support/store/fixtures.py."""

from tests.support.store.fixtures import cluster_id

__all__ = ["cluster_id"]
