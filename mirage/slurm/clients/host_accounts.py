"""Accounts and groups of this host, as getpwuid(3) and getgrgid(3) find them."""

import grp
import os
import pwd
import stat

from mirage.domain.callers.caller import Caller


def find_user_name(uid: int) -> str | None:
    """Return the name of the account with this uid; None: there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def format_user_name(uid: int) -> str:
    """Return the user's name, or `uid N` if this host has no account of the user."""
    return find_user_name(uid) or f"uid {uid}"


def build_caller(uid: int, *, via: str = "munge", names_cluster: bool = True) -> Caller:
    """Build the caller of a uid that was identified."""
    user = find_user_name(uid)
    return Caller(
        uid,
        user or f"uid {uid}",
        via=via,
        names_cluster=names_cluster,
        counts_alone=user is not None,
    )


def is_private(status: os.stat_result) -> bool:
    """Return whether nobody but root, the file's owner and this process's account may use the file.

    The account's own group counts as the account: Kubernetes gives the files of a Secret to root
    and to the pod's group, with mode 0440.
    """
    is_for_group = bool(status.st_mode & stat.S_IRWXG)
    return not (status.st_mode & stat.S_IRWXO or (is_for_group and is_shared_group(status.st_gid)))


def is_shared_group(gid: int) -> bool:
    """Return whether the group is more than the account's own, which many sites use with umask
    002."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return True
    is_alone = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return not (is_alone and user.pw_gid == gid)
