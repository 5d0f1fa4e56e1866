"""Fixtures of this room: tests/support/sim/fixtures.py."""

from tests.support.sim.fixtures import side

__all__ = ["side"]
