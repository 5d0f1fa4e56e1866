"""Weights are kept in the safetensors format, and nothing else is read."""

import json
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import UnfitModel
from mirage.lab.training.artefact import safetensors_io

MADE = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((0, 4), dtype=np.float32),
    "number": np.array(2.5, dtype=np.float32),
}


def test_what_was_packed_is_unpacked() -> None:
    found, told = safetensors_io.unpack_weights(
        safetensors_io.pack_weights(MADE, {"said": "so"}), "it"
    )
    assert told == {"said": "so"}
    assert set(found) == set(MADE)
    for name, array in MADE.items():
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_the_bytes_are_laid_out_as_the_format_says() -> None:
    data = safetensors_io.pack_weights({"a": MADE["a"]}, {})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["a"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    assert data[8 + length :] == np.arange(6, dtype="<f4").tobytes()


PACKED = safetensors_io.pack_weights(MADE, {})


@pytest.mark.parametrize(
    "data",
    [b"", PACKED[:-4], b"\x80\x04pickled" * 9, PACKED.replace(b"F32", b"I64")],
    ids=["empty", "cut short", "a pickle", "another type"],
)
def test_what_is_not_weights_is_refused(data: bytes) -> None:
    with pytest.raises(UnfitModel, match="it cannot be read as weights"):
        safetensors_io.unpack_weights(data, "it")


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnfitModel, match="cannot be read"):
        safetensors_io.load_weights(tmp_path / "nowhere")
