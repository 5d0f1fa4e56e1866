"""Fixtures of this room: tests/support/cluster/fixtures.py."""

from tests.support.cluster.fixtures import rest_host, rest_rig, slurm_rig, slurm_stage

__all__ = ["rest_host", "rest_rig", "slurm_rig", "slurm_stage"]
