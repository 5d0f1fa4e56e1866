"""A job that nobody has submitted yet, and what is foretold of its wait."""

from dataclasses import dataclass
from math import log2

from mirage.domain.decision import Forecast

WHOLE_NODES = 0
"""In place of a number of GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """The traits of a job that decide how long it waits."""

    partition: str
    nodes: int
    time_limit_s: int
    gpus: int = WHOLE_NODES
    """Over all its nodes, where jobs share nodes."""
    account: str = ""
    """Empty: nobody's in particular."""

    def measure_distance(self, other: "JobShape") -> float:
        """Return how far another job of the same partition is from this one, in doublings."""
        nodes = abs(log2(self.nodes / other.nodes))
        return nodes + abs(log2(self.time_limit_s / other.time_limit_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAccuracy:
    """The accuracy of one source's forecasts, measured on jobs submitted since an instant."""

    jobs: int
    days: int
    """On which they were submitted."""
    within: float
    """The share that started between p10 and p90; 0.8 is meant."""
    below_p90: float
    """0.9 is meant."""
    error_s: float
    """The median of how far they started from p50."""
    shift: tuple[float, float, float] | None
    """What p10, p50 and p90 would have needed, of log(1 + hours); None: too few to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeForecast:
    """A shape that the worker looks after."""

    shape: JobShape
    usual: int
    """Jobs of it lately; 0: somebody asked."""
    asked_at: int
    """0: nobody asked."""
    at: int | None
    """When the twin was last asked; None: not yet."""
    forecast: Forecast | None
    refused: str
    """Why there is no forecast, a sentence."""
