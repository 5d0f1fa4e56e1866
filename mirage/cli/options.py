"""Options that many commands share, and the models' folder from the configuration."""

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from mirage.errors import InputError
from mirage.shipped_files import get_data_dir

ConfigOption = Annotated[
    Path | None,
    typer.Option(help="The configuration. Default: $MIRAGE_CONFIG, then /etc/mirage/mirage.toml."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def check_finite(option: typer.CallbackParam, number: float) -> float:
    """Return an option's number if it is finite; the parser also accepts `nan` and `inf`."""
    if not math.isfinite(number):
        raise InputError(f"{option.opts[0]} {number} is not a finite number")
    return number


OverlapPriceOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        callback=check_finite,
        help="What an hour of overlap costs, in hours of interruption.",
    ),
]

TimezoneOption = Annotated[
    str | None,
    typer.Option(
        help="Time zone of local times in the file, such as America/Chicago. "
        "Default: this host's for sacct, TACC's for tacc. Times in epoch seconds need no zone."
    ),
]


def warn_of_local_times(file: Path | str, local_zone: str | None) -> None:
    """Say on standard error which zone was taken for times that name none."""
    if local_zone is not None:
        typer.echo(
            f"mirage: note: {file}: its times name no zone, and were read as local times of "
            f"{local_zone} (--timezone names another)",
            err=True,
        )


def get_models_folder(config: Path | None, *, user: bool = False) -> Path:
    """Return the folder that holds models/NAME, the same as the service's; `user`: that of the
    user's own service.

    Says on standard error if the service's own folder is closed to this account, so that other
    models are taken.
    """
    from mirage.config import settings as settings_file  # noqa: PLC0415 - a Tab does without it

    if user:
        return settings_file.load_user_settings(config).models_dir
    settings = settings_file.load_settings(config)
    state_dir, folder = settings.service.state_dir, settings.models_dir
    is_elsewhere = settings.provision.models_dir is None and folder == get_data_dir("models")
    if is_elsewhere and state_dir.is_dir() and not os.access(state_dir, os.X_OK):
        typer.echo(
            f"mirage: note: {state_dir} is closed to this account, so these are the models that "
            "come with Mirage, and not the site's own: use the account of the service (sudo -u "
            "mirage), or the page Admin",
            err=True,
        )
    return folder
