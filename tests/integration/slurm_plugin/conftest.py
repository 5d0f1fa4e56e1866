"""Fixtures of this room: tests/support/slurm_plugin/fixtures.py."""

from tests.support.slurm_plugin.fixtures import (
    alice,
    chain,
    chain_dir,
    link,
    module,
    pair,
    planning,
    plugin,
    service,
    shell,
    slurm,
    squeue,
)

__all__ = [
    "alice",
    "chain",
    "chain_dir",
    "link",
    "module",
    "pair",
    "planning",
    "plugin",
    "service",
    "shell",
    "slurm",
    "squeue",
]
