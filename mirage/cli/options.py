"""Options that many commands share, and the models' folder from the configuration."""

from pathlib import Path
from typing import Annotated

import typer

from mirage.config import settings as settings_file
from mirage.config.paths import get_models_dir

ConfigOption = Annotated[
    Path | None,
    typer.Option(help="The configuration. Default: $MIRAGE_CONFIG, then /etc/mirage/mirage.toml."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def get_models_folder(config: Path | None) -> Path:
    """Return the folder that holds models/NAME, the same as the service's."""
    return get_models_dir(settings_file.load_settings(config).provision.models_dir)
