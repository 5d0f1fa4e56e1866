"""Reads files of arrays (.npz), and never unpacks more than a fixed size, whatever the file
claims."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mirage.errors import InputError

MOST_BYTES = 2 * 2**30
"""The most bytes of one unpacked file: twenty times a year of hand-overs, one every four hours.
Zeros compress a thousandfold, so the file's own size is no bound."""


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive. Raises InputError if its members have more than MOST_BYTES together.

    zipfile reads a member only as far as its stated length. The checksum of a longer member is then
    wrong.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise InputError(
                f"{path} has {size} bytes when unpacked, more than the limit of {MOST_BYTES}: "
                "make tables of fewer hand-overs"
            )
        yield archive


def read_member(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Read a member that is not an array. Raises what zipfile and zlib raise, and ValueError if
    it is longer than `most_bytes`."""
    if archive.getinfo(name).file_size > most_bytes:
        raise ValueError(f"{name} is longer than {most_bytes} bytes")
    return archive.read(name)


def read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array. Pickle is never loaded, and no more memory is used than the member holds.

    Raises what zipfile, zlib and numpy raise, and ValueError if the array's length is not the
    stated one.
    """
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError(f"{name} is of another version than numpy's 1.0")
        shape, _, dtype = npy.read_array_header_1_0(member)
        if member.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
            raise ValueError(f"{name} is not as long as it says")
        member.seek(0)
        array: NDArray[Any] = np.asarray(npy.read_array(member, allow_pickle=False))
    return array
