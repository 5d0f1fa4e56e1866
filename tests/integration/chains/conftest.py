"""Fixtures of this room: tests/support/provision/fixtures.py."""

from tests.support.provision.fixtures import no_accounting, scene

__all__ = ["no_accounting", "scene"]
