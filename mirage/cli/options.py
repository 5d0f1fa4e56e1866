"""Options that many commands have, and the folder of models that the configuration names."""

from pathlib import Path
from typing import Annotated

import typer

from mirage.config import settings as settings_file
from mirage.config.paths import get_models_dir

ConfigOption = Annotated[
    Path | None, typer.Option(help="mirage.toml. Default: MIRAGE_CONFIG, then /etc/mirage.")
]

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def get_models_folder(config: Path | None) -> Path:
    """Return the folder of models/NAME, as the service finds it (`wiring.get_policy_loader`)."""
    return get_models_dir(settings_file.load_settings(config).provision.models_dir)
