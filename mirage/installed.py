"""Where the files that are not Python are: beside the package in a wheel, else in the checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def data_dir(name: str) -> Path:
    """migrations, models or slurm_plugin."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.exists() else _PACKAGE.parent / name
