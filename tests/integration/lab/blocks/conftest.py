"""Fixtures of this room: tests/support/blocks/fixtures.py."""

from tests.support.blocks.fixtures import slurm

__all__ = ["slurm"]
