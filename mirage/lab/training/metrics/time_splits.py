"""Splits episodes by time: training data lies wholly before the judged episodes."""

from itertools import pairwise

import numpy as np

from mirage.domain.arrays import Flags, Ints
from mirage.errors import InputError
from mirage.lab.training.dataset import Rows

NEWER = 0.5
"""The share of the start points on which a model is judged, unless fewer are asked for."""
FEWEST = 5
"""The fewest episodes on either side of a split."""


class TooFewEpisodes(InputError):
    """There are too few episodes, or too short a time, to learn from some and judge on others."""


def split_rolling(rows: Rows, folds: int, share: float = NEWER) -> list[tuple[Flags, Flags]]:
    """Yield masks [E] of the past and of the window that follows it, oldest first (rolling origin).

    The newest `share` of the start points is cut into `folds` windows. The past of a window
    contains the episodes whose every outcome was known when the window begins. Only episodes at
    the logged load are judged. Raises InputError for too few episodes.
    """
    judged = np.flatnonzero(rows.as_logged)
    edges = np.linspace(1.0 - share, 1.0, folds + 1) * len(judged)
    cuts = np.round(edges).astype(np.int64)
    return [_split_before_window(rows, judged[first:last]) for first, last in pairwise(cuts)]


def split_newest(rows: Rows, share: float) -> tuple[Flags, Flags]:
    """Return masks [E] of the newest episodes at the logged load, and of those known before
    these begin."""
    judged = np.flatnonzero(rows.as_logged)
    return _split_before_window(rows, judged[round((1.0 - share) * len(judged)) :])


def _split_before_window(rows: Rows, judged: Ints) -> tuple[Flags, Flags]:
    window = np.zeros(len(rows), dtype=np.bool_)
    window[judged] = True
    if not window.any():
        return _ensure_enough(window, window)
    begins = rows.start_point[window].min()
    return _ensure_enough((rows.known_at <= begins) & ~window, window)


def _ensure_enough(past: Flags, judged: Flags) -> tuple[Flags, Flags]:
    if min(past.sum(), judged.sum()) < FEWEST:
        raise TooFewEpisodes(
            f"There are too few episodes, or too short a time, to learn from some "
            f"({int(past.sum())}) and judge on others ({int(judged.sum())}): "
            "make tables of more weeks."
        )
    return past, judged
