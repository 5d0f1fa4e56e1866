"""The next link of a chain, put in place as its owner by one narrow rule of sudo.

`deploy/sudoers/mirage` is the rule: one program, one verb, one chain id, no shell, no environment.
What is submitted is what the owner saved when the chain began; nothing of it passes through here.
"""

import os
import pwd
import re
import stat
from pathlib import Path

from mirage.cluster.cli.command_runner import CommandRunner
from mirage.domain.chain import ChainId
from mirage.errors import ClusterRefused, ConfigError, InputError
from mirage.ports import NextLink
from mirage.slurm.text.command_errors import classify_move_error

VERB = "next"
"""The verb of mirage-link that submits the next link of a chain of mode submit if none is in the
queue."""

_CHAIN = re.compile(r"[a-z0-9]{8,32}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
"""User names as useradd(8) allows: nothing that sudo takes for an option, a number or a group."""


def build_argv(link: Path, user: str, chain_id: ChainId) -> list[str]:
    """Return the command that the sudo rule allows.

    Raises InputError for root, and for a malformed user name or chain id.
    """
    if not _USER.fullmatch(user) or user == "root":
        raise InputError(f"Mirage submits no link as user {user!r}: root or not a user name")
    if not _CHAIN.fullmatch(chain_id):
        raise InputError(f"{chain_id!r} is no chain")
    return ["sudo", "-n", "-H", "-u", user, "--", str(link), VERB, chain_id]


def submit_next_link(runner: CommandRunner, link: Path, asked: NextLink) -> bool:
    """Submit the link as its owner through sudo; return True.

    Raises ClusterUnavailable, ClusterRefused with the error of sudo or sbatch, and InputError if
    this host does not know the owner by that uid.
    """
    if _find_uid(asked.user) != asked.uid:
        raise InputError(f"{asked.user!r} is not uid {asked.uid} on this host")
    done = runner.run(build_argv(link, asked.user, asked.chain_id))
    if done.code == 0:
        return True
    complaint = classify_move_error("sudo", done.code, done.stderr)
    raise complaint or ClusterRefused(f"sudo: exit code {done.code}")


def _find_uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def check_program(link: Path) -> str:
    """Describe why the program is safe; raise ConfigError if others than root could change it."""
    if not link.is_absolute() or link.is_symlink() or not link.is_file():
        raise ConfigError("submit.sudo", [f"{link} is not the absolute path of a file"])
    for path in (link, *link.parents):
        found = path.stat()
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_uid != 0 or (found.st_mode & 0o022 and not sticky):
            raise ConfigError("submit.sudo", [f"others than root may change {path}"])
    if not os.access(link, os.X_OK):
        raise ConfigError("submit.sudo", [f"{link} cannot be run"])
    return f"{link}, by the rule of deploy/sudoers/mirage"
