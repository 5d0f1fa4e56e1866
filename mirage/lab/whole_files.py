"""Writes a text file whole or not at all, and removes files and folders."""

import os
import shutil
from pathlib import Path

from mirage.errors import InputError


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises InputError if that is impossible."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def remove_path(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
