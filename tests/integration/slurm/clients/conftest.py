"""Fixtures of this room: tests/support/cluster/fixtures.py."""

from tests.support.cluster.fixtures import fake

__all__ = ["fake"]
