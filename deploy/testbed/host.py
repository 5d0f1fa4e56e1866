"""What the host must have before a cluster starts: packages, users, directories, devices."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from settings import CONF, GPUS_PER_NODE, LOG, RUN, STATE, USERS, Settings, TestbedError

PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurmrestd",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
    "munge",
    "mariadb-server-core",
    "mariadb-client-core",
    "faketime",
    "curl",  # tests ask a socket with it, as one user or another
)
_POLICY = Path("/usr/sbin/policy-rc.d")
_CREATED_USERS = STATE / "created-users"
_MUNGE_KEY = Path("/etc/munge/munge.key")
_JWT_KEY = STATE / "jwt.key"
_SLURM_KEY = CONF / "slurm.key"
_SACK_DIRECTORIES = (Path("/run/slurm"), Path("/run/slurmctld"), Path("/run/slurmdbd"))
_FORBIDDEN_BY_POLICY = 101


def require_root() -> None:
    if os.geteuid() != 0:
        raise TestbedError("the testbed runs several users' daemons: it must be started as root")


def missing_packages() -> list[str]:
    query = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *PACKAGES],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {
        line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")
    }
    return [name for name in PACKAGES if name not in installed]


def install(packages: list[str]) -> None:
    if not packages:
        return
    with _no_daemons_started():
        # Package lists may be absent (a container) or old (404): fetch them only then.
        if _apt("install", *packages).returncode == 0:
            return
        _apt("update")
        process = _apt("install", *packages)
    if process.returncode != 0:
        raise TestbedError(
            f"apt-get could not install {' '.join(packages)}:\n{process.stdout[-2000:]}"
        )


def _apt(command: str, *packages: str) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-y", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0"]
    if command == "install":
        options.append("--no-install-recommends")
    return subprocess.run(
        ["apt-get", command, *options, *packages],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )


@contextmanager
def _no_daemons_started() -> Iterator[None]:
    """Keep packages from starting their daemons, unless the host has a policy of its own."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text(f"#!/bin/sh\nexit {_FORBIDDEN_BY_POLICY}\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()


def prepare(settings: Settings) -> None:
    for path in (STATE, STATE / "dev", STATE / "spool", CONF):
        _directory(path)
    for path in (STATE / "ctld", RUN, LOG):
        _directory(path, owner="slurm")
    _directory(Path("/run/munge"), owner="munge")
    for path in (Path("/etc/munge"), Path("/var/lib/munge"), Path("/var/log/munge")):
        _directory(path, owner="munge", mode=0o700)
    for node in settings.node_names():
        _directory(STATE / "spool" / node)
    for index in range(GPUS_PER_NODE):
        _device(STATE / "dev" / f"gpu{index}")
    _secret(_MUNGE_KEY, owner="munge", size=128)
    _secret(_JWT_KEY, owner="slurm", size=32)
    if settings.auth == "slurm":
        for path in _SACK_DIRECTORIES:
            _directory(path, owner="root" if path.name == "slurm" else "slurm")
        _secret(_SLURM_KEY, owner="slurm", size=1024)
    for user in USERS:
        _user(user)


def _directory(path: Path, *, owner: str = "root", mode: int = 0o755) -> None:
    path.mkdir(parents=True, exist_ok=True)
    shutil.chown(path, owner, owner)
    path.chmod(mode)


def _device(path: Path) -> None:
    if path.exists():
        return
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.touch()  # containers may forbid mknod; slurmd takes a file too and logs an error
    path.chmod(0o666)


def _secret(path: Path, *, owner: str, size: int) -> None:
    if path.exists() and path.stat().st_size > 0:
        return
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(size))
    shutil.chown(path, owner, owner)


def _user(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        subprocess.run(["useradd", "-m", "-s", "/bin/bash", name], check=True)
        with _CREATED_USERS.open("a") as created:
            created.write(f"{name}\n")


def created_users() -> list[str]:
    return _CREATED_USERS.read_text().split() if _CREATED_USERS.exists() else []


def remove_everything() -> None:
    """Remove users that were created here, the database, all state and logs; packages stay."""
    for user in created_users():
        subprocess.run(["userdel", "-f", "-r", user], check=False, capture_output=True)
    for path in (STATE, RUN, LOG):
        shutil.rmtree(path, ignore_errors=True)
    _SLURM_KEY.unlink(missing_ok=True)
