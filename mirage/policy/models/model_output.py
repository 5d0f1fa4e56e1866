"""Defines the answer of a model about one hand-over."""

from dataclasses import dataclass
from typing import Protocol

from mirage.domain.decision import Forecast, PolicyView


@dataclass(frozen=True, slots=True)
class ModelOutput:
    frees: bool
    reason: str
    """The sentence an admin reads."""
    forecast: Forecast | None = None


class Model(Protocol):
    """One kind of graph, and what its outputs mean."""

    prices: tuple[float, float]
    """The least and the greatest overlap price that it may be asked at."""
    window: int
    """How many observations it is shown: the last ones; 0: only the present one."""
    factor: float
    """What its threshold is multiplied with (docs/decisions/0017)."""

    def predict_handover(self, view: PolicyView) -> ModelOutput | str:
        """Predict from a view whose observation is there and familiar.

        Returns the reason, as text, if the model cannot say.
        """
        ...
