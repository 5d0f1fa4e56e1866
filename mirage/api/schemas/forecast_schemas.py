"""Wire types of forecasts of jobs that nobody has submitted yet."""

from datetime import datetime
from enum import StrEnum

from pydantic import ConfigDict, Field

from mirage.api.schemas.chain_schemas import Answer, ForecastView
from mirage.api.schemas.wire_model import RequestBody, WireModel
from mirage.domain.timelimit import UNLIMITED

_NOON = "2026-03-02T12:00:00Z"
MOST_NODES = 1_000_000
MOST_GPUS = 100_000_000


class Source(StrEnum):
    TWIN = "twin"
    QUANTILE = "quantile"


class ShapeView(WireModel):
    """A job as it would be submitted."""

    nodes: int = Field(examples=[4])
    time_limit_s: int = Field(examples=[172800])
    gpus: int = Field(description="Over all nodes; 0: whole nodes.", examples=[0])
    account: str = Field(description="Empty: nobody's in particular.", examples=[""])


class ForecastQuality(WireModel):
    """The accuracy of such forecasts for jobs that users really submitted in the last weeks."""

    jobs: int = Field(examples=[412])
    days: int = Field(examples=[21])
    within: float = Field(description="Started between p10 and p90: 0.8 is meant.", examples=[0.78])
    below_p90: float = Field(description="0.9 is meant.", examples=[0.88])
    error_s: float = Field(description="Median distance from p50.", examples=[900.0])


class WaitForecast(Answer, ForecastView):
    partition: str = Field(examples=["gpu"])
    nodes: int = Field(examples=[4])
    time_limit_s: int = Field(examples=[172800])
    gpus: int = Field(description="Over all nodes; 0: whole nodes.", examples=[0])
    account: str = Field(examples=[""])
    source: Source = Field(
        description="twin: futures simulated from the queue; quantile: what like jobs waited."
    )
    foretold_at: datetime = Field(examples=[_NOON])
    exact: bool = Field(
        description="Whether the forecast was made for exactly this job.", examples=[True]
    )
    used: ShapeView = Field(description="The job for which the forecast was made.")
    calibrated: bool = Field(
        description="p10, p50 and p90 are corrected by how the last weeks' forecasts came out.",
        examples=[True],
    )
    quality: ForecastQuality | None = Field(description="Null: too few jobs to say.")
    waiting: bool = Field(
        description="The twin was asked for exactly this job, and has not answered yet.",
        examples=[False],
    )
    refused: str = Field(
        description="Why the twin says nothing of exactly this job; empty: it does, or was not "
        "asked.",
        examples=[""],
    )
    says: list[str] = Field(
        description="In words: who says so, of what, and how sure that is.",
        examples=[["From 100 simulated futures of the queue as it was 3 min ago (the twin)."]],
    )


class NewForecast(RequestBody):
    """A job for which the twin is to make a forecast."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"partition": "gpu", "nodes": 4, "time_limit_s": 172800}]},
    )

    partition: str = Field(min_length=1, max_length=64)
    nodes: int = Field(ge=1, le=MOST_NODES)
    time_limit_s: int = Field(ge=1, le=UNLIMITED)
    gpus: int = Field(0, ge=0, le=MOST_GPUS, description="Over all nodes; 0: whole nodes.")
    account: str = Field("", max_length=64)


class ForecastAsked(WireModel):
    ask_again_s: int = Field(
        description="The answer comes with one of the worker's next looks.", examples=[60]
    )
