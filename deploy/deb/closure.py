"""Copies the installed distributions that requirements need, without files that serving ignores."""

import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_COLD_FOLDERS = frozenset({"tests", "__pycache__", "include"})
_COLD_SUFFIXES = frozenset({".pyc", ".pyo", ".pyi", ".pxd", ".pyx", ".pxi", ".h", ".hpp", ".a"})
_COLD = (
    # pyarrow's access to Flight, S3 and other object stores; copies of libraries.
    "pyarrow/_flight*", "pyarrow/libarrow_flight*", "pyarrow/libarrow_python_flight*",
    "pyarrow/_s3fs*", "pyarrow/libarrow_s3*", "pyarrow/_gcsfs*", "pyarrow/_azurefs*",
    "pyarrow/_pyarrow_cpp_tests*", "pyarrow/src/*", "pyarrow/*.so.*.1.0",
    "pyarrow/libarrow_python*.so", "pyarrow/libarrow_python_parquet_encryption*",
    "pyarrow/_parquet_encryption*", "pyarrow/_dataset_parquet_encryption*",
    # Tools for making models, and for GPUs.
    "onnxruntime/transformers/*", "onnxruntime/quantization/*", "onnxruntime/tools/*",
    "onnxruntime/datasets/*", "numpy/f2py/*", "numpy/distutils/*",
)  # fmt: skip


_ONNX_TESTS = "onnx/backend/test"
"""Ten thousand small files."""


def copy(requirements: Sequence[str], into: Path, *, without: Sequence[str] = ()) -> None:
    """Copies the files; the copies hold no link into the environment they come from.

    `without`: the requirements of a package that is there as well, and brings its files itself.
    """
    into.mkdir(parents=True)
    brought = needed(without)
    wanted = {name: found for name, found in needed(requirements).items() if name not in brought}
    for found in sorted(wanted.values(), key=lambda d: d.name):
        for file in _files(found):
            target = into / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(found.locate_file(file)), target)


def needed(requirements: Sequence[str]) -> dict[str, Distribution]:
    """By name. Raises PackageNotFoundError for what is not installed here."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        found.setdefault(name, distribution(name))
        for each in {"", *wanted.extras}:
            if (name, each) not in seen:
                seen.add((name, each))
                needs = map(Requirement, found[name].requires or ())
                waiting += [(more, each) for more in needs]
    return found


def _files(found: Distribution) -> Iterator[PurePosixPath]:
    for file in found.files or ():
        outside = file.parts[0] == ".." or file.is_relative_to(_ONNX_TESTS)
        cold = _COLD_FOLDERS & set(file.parts[:-1]) or file.suffix in _COLD_SUFFIXES
        if not (outside or cold or any(file.match(pattern) for pattern in _COLD)):
            yield file
