"""Fixtures of this room: tests/support/provision/fixtures.py."""

from tests.support.provision.fixtures import acting_chain_store, scene

__all__ = ["acting_chain_store", "scene"]
