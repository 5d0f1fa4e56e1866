"""Check that no other user can change a path's content, or put something in its place."""

import os
import pwd


def refuse_others(path, owners):
    """Raise PermissionError unless a directory and all above it belong to `owners` (uids), and
    nobody else may write there; by the path as given, and by where it leads."""
    for start in (os.path.abspath(path), os.path.realpath(path)):
        _refuse_above(start, owners)


def _refuse_above(path, owners):
    while True:
        found = os.stat(path)
        # In a sticky directory a link is its owner's to change, wherever it leads.
        if not {found.st_uid, os.lstat(path).st_uid} <= owners:
            raise PermissionError("%s belongs to somebody else" % (path,))
        if _is_open(found) and not found.st_mode & 0o1000:
            raise PermissionError("others may write in %s: `chmod go-w %s`" % (path, path))
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def _is_open(found):
    """Return whether anybody else may write: all, or a group that is not the user's alone."""
    if found.st_mode & 0o002 or not found.st_mode & 0o020:
        return bool(found.st_mode & 0o002)
    import grp

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(found.st_gid)
    except KeyError:
        return True
    own = group.gr_name == me.pw_name and me.pw_gid == found.st_gid
    return not (own and set(group.gr_mem) <= {me.pw_name})


def get_cache_folder(environ):
    """The folder of the user's own cache that is Mirage's."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or _get_home(), ".cache")
    return os.path.join(os.path.abspath(base), "mirage")


def _get_home():
    return pwd.getpwuid(os.geteuid()).pw_dir


def make_private_folder(folder):
    """Make it where it is not there; PermissionError where others may write in it or above it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700)
    refuse_others(folder, {0, os.geteuid()})
