"""Compiles the simulator's functions once, caches them on disk, and releases the interpreter's
lock.

numba's own cache checks only the file of the function itself, so a kernel would go on using an old
callee from another file. Therefore the cache's folder is named after the contents of all files that
may hold kernels: any change compiles everything again. For the same reason the file's time is not
checked: an upgrade that changes no kernel compiles nothing. Within the folder numba tells the
kernels of different CPUs apart.
"""

import hashlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import cgutils, config, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np import arrayobj

from mirage.domain.arrays import Ints

F = TypeVar("F", bound=Callable[..., Any])
_config: Any = config
_arrays: Any = arrayobj
_build: Any = cgutils
_borrow: Any = impl_ret_borrowed
_unliteral: Callable[[Any], Any] = types.unliteral

_ROOMS: Final = ("mirage.simulator", "mirage.observation", "mirage.twin")
"""The rooms that hold kernels. A kernel may call kernels of another room."""


def _hash_sources() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for room in _ROOMS:
        for source in _list_sources(files(room)):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _list_sources(folder: Traversable) -> Iterator[Traversable]:
    """Yield the Python files of a room and of its packages, in a fixed order."""
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".py"):
            yield entry
        elif entry.is_dir():
            yield from _list_sources(entry)


_SOURCES: Final = _hash_sources()

CACHE: Final = "/".join(
    [
        _config.CACHE_DIR or str(files("mirage.simulator").joinpath("__pycache__")),
        f"kernels-{_SOURCES}",
    ]
)
"""The folder of compiled kernels. It is used under a user's NUMBA_CACHE_DIR too, since numba's own
cache would be stale there as well."""


def expand_inline(function: F) -> F:
    """Compile a function that is inlined into the kernels that call it, before they are compiled.

    Use it for functions that return an array, which a kernel may not do. Use it also for large
    functions with one caller: the compiler optimises all callees of a kernel again for each kernel
    that calls it.
    """
    compiled: Any = numba.njit(inline="always", error_model="numpy")(function)
    return cast(F, compiled)


def kernel(function: F) -> F:
    """Compile a function of integer arrays. Under NUMBA_DISABLE_JIT=1 it stays plain Python.

    The function must not allocate memory nor raise exceptions, so it must not divide by zero.
    """
    return _compile_cached(function, _nrt=False)


def inline_kernel(function: F) -> F:
    """Compile like `kernel`, and inline the function into its callers.

    Use it for code that runs for every job of a pass: a call passes seven words for each array,
    which would cost more than the code itself.
    """
    return _compile_cached(function, _nrt=False, forceinline=True)


def _count_ones_in_python(word: int) -> int:
    return int(word).bit_count()


@intrinsic
def _count_ones_in_hardware(_typing: Any, _word: Any) -> Any:
    def generate_code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate_code


ones: Final = cast(
    "Callable[[int], int]",
    _count_ones_in_python if _config.DISABLE_JIT else _count_ones_in_hardware,
)
"""For kernels: returns the number of bits set in a non-negative word, by one instruction."""


def _cut_in_python(values: Ints, first: int, end: int) -> Ints:
    return values[first:end]


@intrinsic
def _cut_unchecked(_typing: Any, values: Any, _first: Any, _end: Any) -> Any:
    if values.ndim != 1 or values.layout != "C":
        raise numba.TypingError(f"cut: {values} is no flat array")

    def generate_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        build = _arrays.make_array(signature.return_type)
        source, target = build(context, builder, arguments[0]), build(context, builder)
        _arrays.populate_array(
            target,
            data=builder.gep(source.data, [arguments[1]]),
            shape=_build.pack_array(builder, [builder.sub(arguments[2], arguments[1])]),
            strides=source.strides,
            itemsize=source.itemsize,
            meminfo=source.meminfo,
            parent=source.parent,
        )
        value = target._getvalue()  # noqa: SLF001 numba's name for the array that was built
        return _borrow(context, builder, signature.return_type, value)

    return values(values, types.int64, types.int64), generate_code


cut: Final = cast(
    "Callable[[Ints, int, int], Ints]", _cut_in_python if _config.DISABLE_JIT else _cut_unchecked
)
"""For kernels: returns values[first:end] of a flat array, without any check. The places must exist.
A Python slice first checks for negative numbers and for ends beyond the array, and kernels cut so
often that the checks would cost too much."""


def allocating_kernel(function: F) -> F:
    """Compile like `kernel`, for functions that allocate arrays and return them."""
    return _compile_cached(function)


def _compile_cached(function: F, **numba_options: Any) -> F:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **numba_options}
    old_folder = _config.CACHE_DIR
    _config.CACHE_DIR = CACHE
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
        if not _config.DISABLE_JIT:
            # Instead of the file's time and size, which an upgrade changes.
            compiled._cache._cache_file._source_stamp = _SOURCES  # noqa: SLF001 - no other way
    except (RuntimeError, OSError):
        # The cache cannot be written (a read-only installation): each process compiles again.
        compiled = numba.njit(**options)(function)
    finally:
        _config.CACHE_DIR = old_folder
    if not _config.DISABLE_JIT:
        compiled.get_call_template = _strip_literal_types(compiled.get_call_template)
    return cast(F, compiled)


def _strip_literal_types(get_template: Callable[..., Any]) -> Callable[..., Any]:
    """Build a dispatcher's `get_call_template` that treats constants as plain integers.

    Otherwise numba would compile `finish(state, 3)` and `finish(state, 4)` separately, with all
    their callees.
    """

    def get_plain_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        plain_args = tuple(_unliteral(kind) for kind in args)
        return get_template(plain_args, {name: _unliteral(kind) for name, kind in kws.items()})

    return get_plain_template
