"""Builds the input of a model for one hand-over: the observation, and the twin's forecast."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mirage.domain.arrays import Observations
from mirage.domain.decision import PolicyView
from mirage.twin import twin_features


def has_twin_inputs(card: Mapping[str, Any]) -> bool:
    """Return whether a model learned from the twin.

    Raises ValueError if it learned from other numbers of the twin.
    """
    twin = card.get("twin")
    if twin not in (None, twin_features.FINGERPRINT):
        raise ValueError("it was trained on other numbers of the twin than this program's")
    return twin is not None


def build_input_row(view: PolicyView, *, with_twin: bool) -> Observations | str:
    """Return the input row [F] of a graph, or the reason why there is none."""
    if view.observation is None:
        return "there is no observation"
    if not with_twin:
        return view.observation
    if view.twin_s is None:
        return view.why_no_twin
    numbers = twin_features.compute_twin_features(view.twin_s, np.array(view.time_left_s))
    return np.concatenate([view.observation, numbers])
