"""A chain's directory that takes no file (full or read-only), for commands in a mount namespace."""

from __future__ import annotations

import os
from collections.abc import Sequence

_BIND = 'mount --bind "$D" "$D"\n'
_READ_ONLY = _BIND + 'mount -o remount,ro,bind "$D"\n'
_OUT_OF_INODES = """copy=$(mktemp -d) && cp -a "$D/." "$copy"
mount -t tmpfs none "$D" && cp -a "$copy/." "$D"
rm -rf "$copy"
mount -o remount,nr_inodes=$(find "$D" | wc -l) "$D"
"""
KINDS = {"read-only": _READ_ONLY, "out of inodes": _OUT_OF_INODES, "writable": _BIND}
REASONS = {"read-only": "Read-only file system", "out of inodes": "No space left on device"}


def build_namespace(directory: object, kind: str) -> Sequence[str]:
    """Return the words that run a command where `directory` is of that kind."""
    program = "D=$1; shift\n" + KINDS[kind] + 'unset D copy; exec "$@"'
    options = "-m" if os.geteuid() == 0 else "-rm"
    return ["unshare", options, "sh", "-c", program, "sh", str(directory)]
