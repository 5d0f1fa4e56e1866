"""Makes the folder that a site's own models come into, beside those that come with Mirage."""

import os
from pathlib import Path

from mirage.config.settings import Settings
from mirage.errors import InputError
from mirage.shipped_files import get_data_dir


def prepare_models_folder(settings: Settings) -> None:
    """Make the folder that the site's own models come into, and show the models that come with
    Mirage in it: links, so that an upgrade changes them too.

    A configuration that names a folder of models, or a `models` in the working directory, needs
    none. Raises InputError if the folder cannot be made.
    """
    folder = settings.service.state_dir / "models"
    shipped, chosen = get_data_dir("models"), settings.models_dir
    # Resolved: the unit of the service has the state directory as its working directory.
    if chosen != shipped and chosen.resolve() != folder.resolve():
        return
    try:
        folder.mkdir(exist_ok=True)
        for model in shipped.iterdir():
            if model.is_dir():
                _link_folder(folder / model.name, model.absolute())
    except OSError as error:
        raise InputError(
            f"{error.filename or folder} cannot be made: {error.strerror}. Models of this site "
            "come into that folder: set provision.models_dir to another one"
        ) from error


def _link_folder(link: Path, target: Path) -> None:
    """Let `link` lead to the folder. What is there and is no link stays: it is the site's."""
    if link.is_symlink() and link.readlink() == target:
        return
    if link.exists() and not link.is_symlink():
        return
    part = link.with_name(f".{link.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(target, target_is_directory=True)
    part.replace(link)  # never missing for a service that reads the folder
