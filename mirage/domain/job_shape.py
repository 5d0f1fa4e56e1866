"""Shapes of jobs that nobody has submitted yet, and forecasts of their waits."""

from dataclasses import dataclass
from math import log2

from mirage.domain.decision import Forecast

WHOLE_NODES = 0
"""In place of a number of GPUs: the job takes whole nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """The traits of a job that decide how long it waits."""

    partition: str
    nodes: int
    time_limit_s: int
    gpus: int = WHOLE_NODES
    """GPUs over all nodes, if jobs share nodes."""
    account: str = ""
    """Empty: no account in particular."""

    def measure_distance(self, other: "JobShape") -> float:
        """Return how far another job of the same partition is from this one, in doublings."""
        nodes = abs(log2(self.nodes / other.nodes))
        return nodes + abs(log2(self.time_limit_s / other.time_limit_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAccuracy:
    """The accuracy of one source's forecasts, measured on jobs submitted since an instant."""

    jobs: int
    days: int
    """The number of days on which the jobs were submitted."""
    within: float
    """The share of jobs that started between p10 and p90; 0.8 is right."""
    below_p90: float
    """The share of jobs that started before p90; 0.9 is right."""
    error_s: float
    """The median difference between the wait and p50, in seconds."""
    shift: tuple[float, float, float] | None
    """The corrections that p10, p50 and p90 would have needed, in log(1 + hours); None: too few
    jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeForecast:
    """A shape of which the worker keeps a forecast."""

    shape: JobShape
    usual: int
    """Recent jobs of this shape; 0: the shape was only requested."""
    asked_at: int
    """When the shape was last requested; 0: never."""
    at: int | None
    """When the twin was last asked for it; None: not yet."""
    forecast: Forecast | None
    refused: str
    """A sentence on why there is no forecast."""
