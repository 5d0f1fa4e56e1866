"""Fixtures of this room: tests/support/services/fixtures.py."""

from tests.support.services.fixtures import scene

__all__ = ["scene"]
