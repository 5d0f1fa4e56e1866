"""Checks before long work that its result can be written to the place that the user names."""

import os
from pathlib import Path

from mirage.errors import InputError

# The functions of `os.path` never raise, not even below a folder that may not be searched.


def check_writable(path: Path) -> None:
    """Raise InputError if no file can be made or overwritten at `path`."""
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file to write")
    if not os.path.exists(path):
        _check_folder(path, path.absolute().parent)
    elif not os.access(path, os.W_OK):
        raise _make_denied_error(path)


def check_makeable(folder: Path) -> None:
    """Raise InputError if the folder `folder`, which does not exist yet, cannot be made.

    Missing folders above it would be made too.
    """
    existing_parent = next(path for path in folder.absolute().parents if os.path.exists(path))
    _check_folder(folder, existing_parent)


def _check_folder(path: Path, folder: Path) -> None:
    """Raise InputError if the new file or folder `path` cannot be made in `folder`."""
    if not os.path.isdir(folder):
        closed = os.path.exists(folder.parent) and not os.access(folder.parent, os.X_OK)
        raise _make_denied_error(path) if closed else _make_no_folder_error(path, folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _make_denied_error(path)


def _make_no_folder_error(path: Path, folder: Path) -> InputError:
    return InputError(f"{path} cannot be written: {folder} is not a folder")


def _make_denied_error(path: Path) -> InputError:
    return InputError(f"{path} cannot be written: you lack the permission to write there")
