"""Accounts of this host, as getpwuid(3) finds them."""

import pwd

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
