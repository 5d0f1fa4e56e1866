"""Options that many commands share, and the models' folder from the configuration."""

import math
from pathlib import Path
from typing import Annotated

import typer

from mirage.errors import InputError

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


def get_models_folder(config: Path | None) -> Path:
    """Return the folder that holds models/NAME, the same as the service's."""
    from mirage.config import settings as settings_file  # noqa: PLC0415 - a Tab does without it

    return settings_file.load_settings(config).models_dir
