"""Checks whether somebody else could change or replace the service's files."""

import os
import pwd
import stat
from pathlib import Path

from mirage.slurm.clients.host_accounts import is_shared_group


def find_fault(path: Path) -> str | None:
    """Return a sentence that says what is wrong with a service's file or directory, or None.

    A path that does not exist yet has no fault, but the directories above it may have one.
    """
    try:
        return _find_fault_at(path) or _find_fault_above(path)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def _find_fault_at(path: Path) -> str | None:
    if not path.exists():
        return None
    status = path.stat()
    if not (_is_trusted(status.st_uid) and _is_trusted(path.lstat().st_uid)):
        owner, service_user = _get_user_name(status.st_uid), _get_user_name(os.geteuid())
        return f"{path} belongs to {owner}, not to {service_user}"
    return (
        f"others may write in {path}: run `chmod go-w {path}`"
        if _is_writable_by_others(status)
        else None
    )


def _find_fault_above(path: Path) -> str | None:
    absolute = path.absolute()
    for parent in [*absolute.parents, *absolute.resolve().parents]:
        if not parent.exists():
            continue
        # The owner of a symbolic link can change it, also in a sticky directory.
        owners = {parent.lstat().st_uid, parent.stat().st_uid}
        is_sticky = parent.stat().st_mode & stat.S_ISVTX
        if not all(map(_is_trusted, owners)) or (
            _is_writable_by_others(parent.stat()) and not is_sticky
        ):
            return f"others may replace {path}, since they may write in {parent}"
    return None


def _is_trusted(uid: int) -> bool:
    return uid in {0, os.geteuid()}


def _is_writable_by_others(status: os.stat_result) -> bool:
    """Return whether anybody but the owner and root may write to the file."""
    by_others = bool(status.st_mode & stat.S_IWOTH)
    return by_others or bool(status.st_mode & stat.S_IWGRP and is_shared_group(status.st_gid))


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
