"""Fixtures of this room: tests/support/service/fixtures.py."""

from tests.support.service.fixtures import config, ready_config, slurm

__all__ = ["config", "ready_config", "slurm"]
