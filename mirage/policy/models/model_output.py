"""Defines the answer of a model about one hand-over."""

from dataclasses import dataclass
from typing import Protocol

from mirage.domain.decision import Forecast, PolicyView


@dataclass(frozen=True, slots=True)
class ModelOutput:
    frees: bool
    reason: str
    """The sentence that users and admins read."""
    forecast: Forecast | None = None


class Model(Protocol):
    """One kind of graph, and what its outputs mean."""

    prices: tuple[float, float]
    """The least and the greatest overlap price that it may be asked at."""
    window: int
    """The number of latest observations that the model is shown; 0: only the present one."""
    factor: float
    """The factor of its threshold (docs/decisions/0017-the-boundary-factor.md)."""

    def predict_handover(self, view: PolicyView) -> ModelOutput | str:
        """Predict from a view. Its observation must exist and lie in the training range. Returns
        the reason as text if the model has no answer."""
        ...
