"""Tables of random numbers, whose rows and outcomes all differ."""

import numpy as np
from numpy.typing import NDArray

from mirage.lab.training.environment.table_library import TableLibrary

Table = tuple[NDArray[np.float32], NDArray[np.float64]]
FEATURES = 5


def random_tables(count: int = 7, seed: int = 0) -> list[Table]:
    """Each of 1 to 9 instants; outcomes of both signs."""
    rng = np.random.default_rng(seed)
    lengths = [1, *rng.integers(1, 10, count - 1)]
    return [
        (rng.normal(size=(t, FEATURES)).astype(np.float32), rng.normal(scale=9, size=t))
        for t in lengths
    ]


def random_library(count: int = 7, seed: int = 0) -> TableLibrary:
    return TableLibrary(random_tables(count, seed))
