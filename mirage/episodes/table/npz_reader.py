"""Files of arrays (.npz): no more is unpacked than there is room for, whatever the file says."""

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
"""Of one file once it is unpacked: twenty times a year of hand-overs, one every four hours. Zeros
are packed a thousand times as small, so that the file's own size bounds nothing."""


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, whose members are MOST_BYTES together. Raises InputError for a larger one.

    A member that is longer than it says is read as far as it says (zipfile), and its checksum is
    then wrong.
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
    """Another member. Raises what zipfile and zlib raise; ValueError where it is longer."""
    if archive.getinfo(name).file_size > most_bytes:
        raise ValueError(f"{name} is longer than {most_bytes} bytes")
    return archive.read(name)


def read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array. Pickle is never loaded, and memory is taken for what the member holds alone.

    Raises what zipfile, zlib and numpy raise; ValueError where the array is not as long as it says.
    """
    held = archive.getinfo(f"{name}.npy")
    with archive.open(held) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError(f"{name} is of another version than numpy's 1.0")
        shape, _, dtype = npy.read_array_header_1_0(member)
        if member.tell() + math.prod(shape) * dtype.itemsize != held.file_size:
            raise ValueError(f"{name} is not as long as it says")
        member.seek(0)
        array: NDArray[Any] = np.asarray(npy.read_array(member, allow_pickle=False))
    return array
