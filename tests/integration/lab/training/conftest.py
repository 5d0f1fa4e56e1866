"""Fixtures of this room: tests/support/policies/fixtures.py."""

from tests.support.policies.fixtures import served

__all__ = ["served"]
