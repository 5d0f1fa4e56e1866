"""Locates what is shipped with Mirage and is not Python of this package: migrations, models, and
the client (mirage-slurm). It lies beside the package in a wheel, else in the checkout."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from mirage.errors import InputError

_PACKAGE = Path(__file__).parent


def get_data_dir(name: str) -> Path:
    """Return the path of a shipped folder: migrations, models or slurm_plugin.

    In a checkout all lie beside the package. Else slurm_plugin is what mirage-slurm installed.
    """
    installed, in_checkout = _PACKAGE / "_data" / name, _PACKAGE.parent / name
    if name == "slurm_plugin" and not in_checkout.exists():
        client = find_spec("mirage_slurm")
        if client is None or client.origin is None:
            raise InputError("mirage-slurm is missing: run `pip install mirage-slurm`")
        return Path(client.origin).resolve().parents[1]
    return installed if installed.exists() else in_checkout


@cache
def load_client_module(name: str) -> ModuleType:
    """Load a module of the distribution mirage-slurm by its name below `mirage_slurm`, such as
    `client.rest`.

    A checkout uses its own copy whatever is installed, since both are changed together.
    """
    folder = str(get_data_dir("slurm_plugin"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module(f"mirage_slurm.{name}")
