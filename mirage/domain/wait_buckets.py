"""Classes of jobs by number of nodes and by time limit, by which waits are summed."""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.time_units import HOUR_S


class SizeClass(StrEnum):
    """A class of jobs by number of nodes."""

    ONE = "1"
    FEW = "2-4"
    SOME = "5-16"
    MANY = "17-64"
    MOST = "65-up"


class LimitClass(StrEnum):
    """A class of jobs by time limit: each value is the longest limit of its class."""

    HOUR = "1h"
    HOURS_4 = "4h"
    HOURS_12 = "12h"
    DAY = "24h"
    DAYS_2 = "48h"
    LONGER = "longer"
    """More than 48 hours, or no limit."""
    UNKNOWN = "unknown"


SIZES = tuple(SizeClass)
LIMITS = tuple(LimitClass)

_LARGEST = np.array([1, 4, 16, 64], dtype=np.int64)
_LONGEST_S = np.array([1, 4, 12, 24, 48], dtype=np.int64) * HOUR_S


def assign_size_codes(nodes: Ints) -> NDArray[np.uint8]:
    """Return places in `SIZES`, [n], of numbers of nodes [n]. An unknown number counts as one
    node."""
    return np.searchsorted(_LARGEST, nodes).astype(np.uint8)


def assign_limit_codes(time_limit_s: Ints) -> NDArray[np.uint8]:
    """Return places in `LIMITS`, [n], of time limits [n] in seconds. Less than 1 means not
    known."""
    codes = np.searchsorted(_LONGEST_S, time_limit_s)
    return np.where(time_limit_s < 1, LIMITS.index(LimitClass.UNKNOWN), codes).astype(np.uint8)
