"""Where the files that are not Python are: beside the package in a wheel, else in the checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def data_dir(name: str) -> Path:
    """migrations, models or slurm_plugin."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.exists() else _PACKAGE.parent / name


def models_dir(configured: Path | None = None) -> Path:
    """Trained models: where the settings say (provision.models_dir), else `models` where the
    command is called, else those that came with Mirage."""
    if configured is not None:
        return configured
    here = Path("models")
    return here if here.is_dir() else data_dir("models")
