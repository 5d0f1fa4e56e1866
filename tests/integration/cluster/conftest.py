"""Fixtures of this room: tests/support/cluster/fixtures.py."""

from tests.support.cluster.fixtures import fake, rest_host, rest_rig, slurm_rig, slurm_stage

__all__ = ["fake", "rest_host", "rest_rig", "slurm_rig", "slurm_stage"]
