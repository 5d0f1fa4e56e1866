"""Check that no other user can change a path's content, or put something in its place."""

import os
import pwd


def refuse_others(path, owners):
    """Raise PermissionError unless a directory and all directories above it belong to `owners` (uids),
    and nobody else may write there. The path itself and its real path are both checked."""
    for start in (os.path.abspath(path), os.path.realpath(path)):
        _refuse_above(start, owners)


def _refuse_above(path, owners):
    while True:
        status = os.stat(path)
        # In a sticky directory a symbolic link can be changed by its owner alone, so both the link's
        # owner and its target's are checked.
        if not {status.st_uid, os.lstat(path).st_uid} <= owners:
            raise PermissionError("%s belongs to somebody else" % (path,))
        if _is_open(status) and not status.st_mode & 0o1000:
            raise PermissionError("others may write in %s: `chmod go-w %s`" % (path, path))
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def _is_open(status):
    """Return whether anybody else may write: all, or a group that is not the user's alone."""
    if status.st_mode & 0o002 or not status.st_mode & 0o020:
        return bool(status.st_mode & 0o002)
    import grp

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    own = group.gr_name == me.pw_name and me.pw_gid == status.st_gid
    return not (own and set(group.gr_mem) <= {me.pw_name})


def get_cache_folder(environ):
    """Return Mirage's folder in the user's cache."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or _get_home(), ".cache")
    return os.path.join(os.path.abspath(base), "mirage")


def _get_home():
    return pwd.getpwuid(os.geteuid()).pw_dir


def make_private_folder(folder):
    """Make the folder if it is absent. Raises PermissionError if others may write in it or above it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700)
    refuse_others(folder, {0, os.geteuid()})
