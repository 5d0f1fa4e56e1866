"""Fixtures of this room: tests/support/services/fixtures.py."""

from tests.support.services.fixtures import acting_chain_store, chain_store, scene

__all__ = ["acting_chain_store", "chain_store", "scene"]
