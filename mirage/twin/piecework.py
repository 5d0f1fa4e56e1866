"""Work in pieces: a generator that yields after each piece, and returns the result at its end."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Piecework = Generator[None, None, T]


def finish_work(work: Piecework[T]) -> T:
    """Do all pieces that are left, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
