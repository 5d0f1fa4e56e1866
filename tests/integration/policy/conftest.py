"""Fixtures of this room: tests/support/policy/fixtures.py."""

from tests.support.policy.fixtures import served

__all__ = ["served"]
