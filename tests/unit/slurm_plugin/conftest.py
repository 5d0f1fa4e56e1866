"""Fixtures of this room: tests/support/slurm_plugin/fixtures.py."""

from tests.support.slurm_plugin.fixtures import (
    chain,
    chain_dir,
    link,
    module,
    planning,
    plugin,
    service,
    shell,
    slurm,
    squeue,
)

__all__ = [
    "chain",
    "chain_dir",
    "link",
    "module",
    "planning",
    "plugin",
    "service",
    "shell",
    "slurm",
    "squeue",
]
