"""Fixtures of this room: tests/support/services/fixtures.py."""

from tests.support.services.fixtures import sqlite_store

__all__ = ["sqlite_store"]
