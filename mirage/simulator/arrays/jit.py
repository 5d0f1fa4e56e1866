"""Compiles the simulator's functions once, caches them on disk, and releases the interpreter's
lock.

numba's cache checks only the file of the function itself, so it would keep using a changed callee.
The folder of the cache is therefore named after the contents of all files with kernels.
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
"""The rooms that hold kernels; a kernel is compiled with those it calls from another."""


def _hash_sources() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for room in _ROOMS:
        for source in _list_sources(files(room)):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _list_sources(folder: Traversable) -> Iterator[Traversable]:
    """The Python files of a room and of its packages, in a fixed order."""
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".py"):
            yield entry
        elif entry.is_dir():
            yield from _list_sources(entry)


CACHE: Final = "/".join(
    [
        _config.CACHE_DIR or str(files("mirage.simulator").joinpath("__pycache__")),
        f"kernels-{_hash_sources()}",
    ]
)
"""Where compiled kernels are kept, also under a NUMBA_CACHE_DIR of the user's: numba's own choice
there would go stale too."""


def expand_inline(function: F) -> F:
    """Compile for kernels alone, which get the function set into them before they are compiled.

    It is for functions that return an array, which a kernel may not. It is also for large functions
    with one caller, since the whole tree below a kernel is optimised again for each kernel above
    it.
    """
    compiled: Any = numba.njit(inline="always", error_model="numpy")(function)
    return cast(F, compiled)


def kernel(function: F) -> F:
    """Compile for integer arrays; plain Python under NUMBA_DISABLE_JIT=1.

    No allocation, no exceptions: division by zero must not happen.
    """
    return _compile_cached(function, _nrt=False)


def inline_kernel(function: F) -> F:
    """Compile like `kernel`, and set the function into its callers.

    A call hands over seven words an array; code that runs for every job of a pass must not pay
    that.
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
"""For kernels: number of bits set in a non-negative word, which is one instruction."""


def _cut_in_python(values: Ints, first: int, end: int) -> Ints:
    return values[first:end]


@intrinsic
def _cut_unchecked(_typing: Any, values: Any, _first: Any, _end: Any) -> Any:
    if values.ndim != 1 or values.layout != "C":
        raise numba.TypingError(f"cut: {values} is no flat array")

    def generate_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        build = _arrays.make_array(signature.return_type)
        source, found = build(context, builder, arguments[0]), build(context, builder)
        _arrays.populate_array(
            found,
            data=builder.gep(source.data, [arguments[1]]),
            shape=_build.pack_array(builder, [builder.sub(arguments[2], arguments[1])]),
            strides=source.strides,
            itemsize=source.itemsize,
            meminfo=source.meminfo,
            parent=source.parent,
        )
        value = found._getvalue()  # noqa: SLF001 numba's name for the array that was built
        return _borrow(context, builder, signature.return_type, value)

    return values(values, types.int64, types.int64), generate_code


cut: Final = cast(
    "Callable[[Ints, int, int], Ints]", _cut_in_python if _config.DISABLE_JIT else _cut_unchecked
)
"""For kernels: values[first:end] of a flat array that has these places. A slice looks first for
negative numbers and for ends beyond the array, and kernels cut at every turn."""


def allocating_kernel(function: F) -> F:
    """Compile like `kernel`, for functions that make arrays and return them."""
    return _compile_cached(function)


def _compile_cached(function: F, **more: Any) -> F:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    before = _config.CACHE_DIR
    _config.CACHE_DIR = CACHE
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):
        # Nowhere to keep it (a read-only installation): compiled anew by each process.
        compiled = numba.njit(**options)(function)
    finally:
        _config.CACHE_DIR = before
    if not _config.DISABLE_JIT:
        compiled.get_call_template = _strip_literal_types(compiled.get_call_template)
    return cast(F, compiled)


def _strip_literal_types(typed: Callable[..., Any]) -> Callable[..., Any]:
    """Make a dispatcher's `get_call_template` that gives constants no types of their own.

    Otherwise `finish(state, 3)` and `finish(state, 4)` were compiled apart, with all that they
    call.
    """

    def get_plain_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        unnamed = tuple(_unliteral(kind) for kind in args)
        return typed(unnamed, {name: _unliteral(kind) for name, kind in kws.items()})

    return get_plain_template
