"""Fixtures of this room: tests/support/slurm_plugin/fixtures.py."""

from tests.support.slurm_plugin.fixtures import (
    alice,
    chain,
    chain_dir,
    link,
    module,
    pair,
    plugin,
    service,
    shell,
    side,
    slurm,
    squeue,
    troubled,
)

__all__ = [
    "alice",
    "chain",
    "chain_dir",
    "link",
    "module",
    "pair",
    "plugin",
    "service",
    "shell",
    "side",
    "slurm",
    "squeue",
    "troubled",
]
