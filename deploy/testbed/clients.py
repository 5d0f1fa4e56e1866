"""Commands of the cluster's users, run in the cluster's time."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import clock
from settings import TestbedError


def account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise TestbedError(f"no user {user}") from None


def environment_of(user: str) -> dict[str, str]:
    """Return what a login of `user` would have, plus the cluster's clock."""
    entry = account(user)
    return {
        "HOME": entry.pw_dir,
        "USER": user,
        "LOGNAME": user,
        "SHELL": entry.pw_shell,
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "LC_ALL": "C.UTF-8",
        **clock.environment(),
    }


def run(
    argv: Sequence[str],
    *,
    user: str = "root",
    script: str | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `argv` as `user` from their home, with `script` on standard input."""
    entry = account(user)
    return subprocess.run(
        list(argv),
        input=script,
        stdin=subprocess.DEVNULL if script is None else None,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(entry.pw_dir),
        env=environment_of(user) | dict(env or {}),
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=os.getgrouplist(user, entry.pw_gid),
    )
