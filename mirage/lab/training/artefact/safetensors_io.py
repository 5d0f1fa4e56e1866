"""Arrays by name in one file of the safetensors format: numbers and a header, nothing to run.

The format: the header's length in 8 bytes, little-endian; the header, JSON, with each array's type,
shape and place; the arrays' bytes. https://github.com/huggingface/safetensors
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import UnfitModel

Weights = dict[str, NDArray[np.float32]]

_LENGTH = 8
_METADATA = "__metadata__"


def pack_weights(weights: Mapping[str, NDArray[np.float32]], metadata: Mapping[str, str]) -> bytes:
    """Pack arrays by name into bytes. `metadata`: texts that are stored beside the arrays."""
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    offset, parts = 0, []
    for name, array in weights.items():
        part = np.asarray(array, dtype="<f4").tobytes()
        offsets = [offset, offset + len(part)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        offset += len(part)
        parts.append(part)
    header_bytes = json.dumps(header).encode()
    header_bytes += b" " * (-len(header_bytes) % _LENGTH)
    return b"".join([len(header_bytes).to_bytes(_LENGTH, "little"), header_bytes, *parts])


def unpack_weights(data: bytes, name: str) -> tuple[Weights, dict[str, str]]:
    """Unpack arrays. Raises UnfitModel, which names `name`, for bytes that `pack_weights` did
    not make."""
    try:
        end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        header = json.loads(data[_LENGTH:end])
        metadata = header.pop(_METADATA, {})
        return {key: _read_array(data[end:], entry) for key, entry in header.items()}, metadata
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnfitModel(f"{name} cannot be read as weights: {error}") from error


def load_weights(path: Path) -> tuple[Weights, dict[str, str]]:
    """Load the arrays of a file. Raises UnfitModel if the file cannot be read."""
    try:
        return unpack_weights(path.read_bytes(), str(path))
    except OSError as error:
        raise UnfitModel(f"{path} cannot be read: {error.strerror}") from error


def _read_array(data: bytes, entry: Mapping[str, Any]) -> NDArray[np.float32]:
    if entry["dtype"] != "F32":
        raise ValueError(f"the type {entry['dtype']} is not known")
    begin, end = entry["data_offsets"]
    flat = np.frombuffer(data[begin:end], dtype="<f4")
    return flat.astype(np.float32).reshape(entry["shape"])
