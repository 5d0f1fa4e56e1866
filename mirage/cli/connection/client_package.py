"""Loads modules of the package mirage_slurm, which the distribution mirage-slurm installs.

A checkout uses its own copy whatever is installed, since both are changed together.
"""

import sys
from importlib import import_module
from types import ModuleType

from mirage.config.paths import get_data_dir


def load_client_module(name: str) -> ModuleType:
    """Load a module of mirage_slurm by its name there, such as `client.rest`."""
    folder = str(get_data_dir("slurm_plugin"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module(f"mirage_slurm.{name}")
