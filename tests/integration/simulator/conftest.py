"""Fixtures of this room: tests/support/simulator/fixtures.py."""

from tests.support.simulator.fixtures import side

__all__ = ["side"]
