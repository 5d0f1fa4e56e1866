"""Fixtures of this room: tests/support/services/fixtures.py."""

from tests.support.services.fixtures import acting_chain_store, no_accounting, scene

__all__ = ["acting_chain_store", "no_accounting", "scene"]
