"""Fixtures of this room: tests/support/cluster/fixtures.py."""

from tests.support.cluster.fixtures import commands, rest_host, rest_rig, slurm_rig, slurm_stage

__all__ = ["commands", "rest_host", "rest_rig", "slurm_rig", "slurm_stage"]
