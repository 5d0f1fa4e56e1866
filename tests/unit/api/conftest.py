"""Fixtures of this room: tests/support/api/fixtures.py."""

from tests.support.api.fixtures import client, cluster_id, context, stage, store

__all__ = ["client", "cluster_id", "context", "stage", "store"]
