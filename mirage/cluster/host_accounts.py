"""Accounts of this host, as getpwuid(3) finds them."""

import pwd

from mirage.domain.access.caller import Caller


def find_user_name(uid: int) -> str | None:
    """None where no account has this uid."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def format_user_name(uid: int) -> str:
    """Also of a user whom this host does not know."""
    return find_user_name(uid) or f"uid {uid}"


def build_caller(uid: int, *, via: str = "munge", names_cluster: bool = True) -> Caller:
    """Build the caller of a uid that somebody vouches for."""
    user = find_user_name(uid)
    return Caller(
        uid,
        user or f"uid {uid}",
        via=via,
        names_cluster=names_cluster,
        counts_alone=user is not None,
    )
