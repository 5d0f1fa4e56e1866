"""Fixtures of this room: tests/support/api/fixtures.py."""

from tests.support.api.fixtures import client, context, stage, store

__all__ = ["client", "context", "stage", "store"]
