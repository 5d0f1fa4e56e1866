"""Links the unpacked distributions that requirements need, without files that serving ignores."""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

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


def link(
    requirements: Sequence[str], into: Path, unpacked: Path, python: str, *, without: Sequence[str]
) -> None:
    """Link the files from the folder `unpacked`, whose modules are of `python`, as "3.13".

    `without`: the requirements of a package that is there as well, and brings its files itself.
    """
    into.mkdir(parents=True)
    present = {canonicalize_name(d.name): d for d in distributions(path=[str(unpacked)])}
    brought = needed(without, present, python)
    wanted = needed(requirements, present, python).items()
    for one in sorted((d for n, d in wanted if n not in brought), key=lambda d: d.name):
        for file in _files(one):
            target = into / file
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(str(one.locate_file(file)), target)


def needed(
    requirements: Sequence[str], present: Mapping[NormalizedName, Distribution], python: str
) -> dict[NormalizedName, Distribution]:
    """By name. Exits if one is not among `present`."""
    closure: dict[NormalizedName, Distribution] = {}
    seen: set[tuple[NormalizedName, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    where = {"python_version": python, "python_full_version": f"{python}.0"}
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate(where | {"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        if name not in present:
            raise SystemExit(f"no wheel of {name} is pinned for Python {python}: make requirements")
        closure.setdefault(name, present[name])
        for each in {"", *wanted.extras}:
            if (name, each) not in seen:
                seen.add((name, each))
                needs = map(Requirement, closure[name].requires or ())
                waiting += [(more, each) for more in needs]
    return closure


def _files(one: Distribution) -> Iterator[PurePosixPath]:
    for file in one.files or ():
        outside = file.parts[0] == ".." or file.is_relative_to(_ONNX_TESTS)
        cold = _COLD_FOLDERS & set(file.parts[:-1]) or file.suffix in _COLD_SUFFIXES
        # RECORD has the hashes of programs, in which the building Python's path stands.
        if not (outside or cold or file.name == "RECORD" or any(map(file.match, _COLD))):
            yield file
