"""Accounts of this host, as getpwuid(3) finds them."""

import pwd


def user_name(uid: int) -> str | None:
    """None where no account has this uid. One user may run processes under thousands of such uids
    (subuid(5)), so that they count as one client together."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
