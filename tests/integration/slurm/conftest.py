"""Fixtures of this room: tests/support/slurm/fixtures.py."""

from tests.support.slurm.fixtures import captures

__all__ = ["captures"]
