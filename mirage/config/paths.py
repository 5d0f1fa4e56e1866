"""Locates files and addresses.

Files that are not Python lie beside the package in a wheel, else in the checkout. The module
also has the state directory of a user's own service and the API's port.
"""

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from mirage.errors import InputError

DEFAULT_PORT = 6480
_PACKAGE = Path(__file__).parents[1]


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


def get_models_dir(configured: Path | None = None, state_dir: Path | None = None) -> Path:
    """Return the folder of trained models: provision.models_dir if it is set, else `models` in
    the working directory, else `models` in the service's state directory, else the models that
    came with Mirage."""
    if configured is not None:
        return configured
    made = [Path("models")] if state_dir is None else [Path("models"), state_dir / "models"]
    # os.path: a state directory that is closed to this user is as good as none.
    return next(filter(os.path.isdir, made), get_data_dir("models"))


def get_user_state_dir() -> Path:
    """Return the folder in which the user's own service keeps its database and socket."""
    xdg_state_home = os.environ.get("XDG_STATE_HOME", "")
    # A relative path is invalid and ignored (XDG Base Directory Specification).
    is_valid = xdg_state_home.startswith("/")
    base = Path(xdg_state_home) if is_valid else Path.home() / ".local" / "state"
    return base / "mirage" / "service"
