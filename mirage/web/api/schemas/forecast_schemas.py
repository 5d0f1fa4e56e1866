"""Wire types of forecasts of jobs that nobody has submitted yet."""

from datetime import datetime
from enum import StrEnum

from pydantic import ConfigDict, Field

from mirage.domain.timelimit import UNLIMITED
from mirage.web.api.schemas.chain_schemas import Answer, ForecastView
from mirage.web.api.schemas.wire_model import RequestBody, WireModel

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
    gpus: int = Field(
        description="The number of GPUs over all nodes; 0: the job takes whole nodes.", examples=[0]
    )
    account: str = Field(description="The account; empty: no account in particular.", examples=[""])


class ForecastQuality(WireModel):
    """The accuracy of such forecasts for jobs that users really submitted in the last weeks."""

    jobs: int = Field(examples=[412])
    days: int = Field(examples=[21])
    within: float = Field(
        description="The share of jobs that started between p10 and p90; 0.8 is right.",
        examples=[0.78],
    )
    below_p90: float = Field(
        description="The share of jobs that started before p90; 0.9 is right.", examples=[0.88]
    )
    error_s: float = Field(
        description="The median difference between the wait and p50.", examples=[900.0]
    )


class WaitForecast(Answer, ForecastView):
    partition: str = Field(examples=["gpu"])
    nodes: int = Field(examples=[4])
    time_limit_s: int = Field(examples=[172800])
    gpus: int = Field(
        description="The number of GPUs over all nodes; 0: the job takes whole nodes.", examples=[0]
    )
    account: str = Field(examples=[""])
    source: Source = Field(
        description="twin: simulated futures of the queue; quantile: the waits of similar jobs."
    )
    foretold_at: datetime = Field(examples=[_NOON])
    exact: bool = Field(
        description="Whether the forecast was made for exactly this job.", examples=[True]
    )
    used: ShapeView = Field(description="The job for which the forecast was made.")
    calibrated: bool = Field(
        description="Whether p10, p50 and p90 were corrected by the errors of the last weeks' "
        "forecasts.",
        examples=[True],
    )
    quality: ForecastQuality | None = Field(
        description="How accurate such forecasts were; null: too few jobs to tell."
    )
    waiting: bool = Field(
        description="Whether the twin was asked for exactly this job and has not answered yet.",
        examples=[False],
    )
    refused: str = Field(
        description="Why the twin made no forecast for exactly this job; empty: it made one, or "
        "was not asked.",
        examples=[""],
    )
    says: list[str] = Field(
        description="The forecast in words: its source, the job that it is for, and its accuracy.",
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
    gpus: int = Field(
        0,
        ge=0,
        le=MOST_GPUS,
        description="The number of GPUs over all nodes; 0: the job takes whole nodes.",
    )
    account: str = Field("", max_length=64)


class ForecastAsked(WireModel):
    ask_again_s: int = Field(
        description="How long to wait before asking again. The worker makes the forecast in one "
        "of its next rounds.",
        examples=[60],
    )
