"""How the simulator's functions are compiled: cached on disk, without the interpreter's lock."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile for integer arrays; plain Python under NUMBA_DISABLE_JIT=1."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled
