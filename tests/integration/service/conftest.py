"""Fixtures of this room: tests/support/service/fixtures.py, tests.support.provision.fixtures.py."""

from tests.support.provision.fixtures import scene
from tests.support.service.fixtures import config, ready_config, slurm

__all__ = ["config", "ready_config", "scene", "slurm"]
