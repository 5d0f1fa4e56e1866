"""Says where models and the state of a user's own service lie by default, and the API's port."""

import os
from pathlib import Path

from mirage.shipped_files import get_data_dir

DEFAULT_PORT = 6480


def get_models_dir(configured: Path | None = None, state_dir: Path | None = None) -> Path:
    """Return the folder of trained models: provision.models_dir if it is set, else `models` in
    the working directory, else `models` in the service's state directory, else the models that
    came with Mirage."""
    if configured is not None:
        return configured
    candidates = [Path("models")] if state_dir is None else [Path("models"), state_dir / "models"]
    # os.path: a state directory that is closed to this user is as good as none.
    return next(filter(os.path.isdir, candidates), get_data_dir("models"))


def get_user_state_dir() -> Path:
    """Return the folder in which the user's own service keeps its database and socket."""
    xdg_state_home = os.environ.get("XDG_STATE_HOME", "")
    # A relative path is invalid and ignored (XDG Base Directory Specification).
    is_valid = xdg_state_home.startswith("/")
    base = Path(xdg_state_home) if is_valid else Path.home() / ".local" / "state"
    return base / "mirage" / "service"
