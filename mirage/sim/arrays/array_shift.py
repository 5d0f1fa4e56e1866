"""Moves the entries of an array by one place."""

from mirage.domain.arrays import Ints
from mirage.sim.arrays.jit import inline_kernel


@inline_kernel
def shift_back(values: Ints) -> None:
    """Move all by one towards the end, the last is lost. Of a slice that counts from 0 the compiler
    moves many at a time."""
    for i in range(values.size - 1, 0, -1):
        values[i] = values[i - 1]


@inline_kernel
def shift_ahead(values: Ints) -> None:
    """The same towards the beginning."""
    for i in range(values.size - 1):
        values[i] = values[i + 1]
