"""Fixtures of this room: tests/support/provision/fixtures.py."""

from tests.support.provision.fixtures import chain_store

__all__ = ["chain_store"]
