"""Whether a result can be written where it is wanted: said before the long work, not after it."""

import os
from pathlib import Path

from mirage.errors import InputError


def check_writable(path: Path) -> None:
    """Raises InputError where no file could be made, or written over, at `path`."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file to write")
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: {folder} is not a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"{path} cannot be written: you may not write there")


def check_makeable(folder: Path) -> None:
    """Raises InputError where no folder could be made at `folder`, which is not there yet, with
    those above it that are missing."""
    above = next(path for path in folder.absolute().parents if path.exists())
    check_writable(above / folder.name)
