"""Fixtures of this room."""

from tests.fixtures_slurm import slurm_host, testbed

__all__ = ["slurm_host", "testbed"]
