"""Locates files and addresses.

Files that are not Python lie beside the package in a wheel, else in the checkout. The module
also has the state directory of a user's own service and the API's port.
"""

import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

DEFAULT_PORT = 6480
_PACKAGE = Path(__file__).parents[1]


def get_data_dir(name: str) -> Path:
    """Return the path of a shipped folder: migrations, models or slurm_plugin."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.exists() else _PACKAGE.parent / name


@cache
def load_plugin_module(name: str) -> ModuleType:
    """Load a module of the shell plugin by its name below `mirage_slurm`, as `client.service`.

    Users' commands run the same file, which stands outside this package because it must run under
    Python 3.6.
    """
    folder = str(get_data_dir("slurm_plugin"))
    if folder not in sys.path:
        sys.path.append(folder)
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
