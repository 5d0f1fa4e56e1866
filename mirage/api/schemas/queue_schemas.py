"""Wire types of the queue, and of waits."""

from datetime import datetime

from pydantic import Field

from mirage.api.schemas.chain_schemas import Answer
from mirage.api.schemas.wire_model import WireModel
from mirage.domain.wait_buckets import LimitClass, SizeClass
from mirage.services.reports.wait_statistics import Span

_NOON = "2026-03-02T12:00:00Z"
_HOURS_2, _HOURS_9 = 7200.0, 32400.0


class ReasonView(WireModel):
    """Why jobs wait."""

    reason: str = Field(description="Slurm's word.", examples=["Priority"])
    jobs: int = Field(examples=[40])
    cure: str = Field(
        description="What ends the wait: queue, jobs, date, or person (somebody has to act).",
        examples=["queue"],
    )
    says: str = Field(
        description="Half a sentence, with the job as its subject; empty: not known.",
        examples=["jobs with a higher priority stand before it"],
    )
    advice: str = Field(description="What to do, if anything.", examples=[""])


class PartitionView(WireModel):
    partition: str = Field(description="Empty: all together.", examples=["gpu"])
    pending_jobs: int = Field(examples=[40])
    pending_nodes: int = Field(examples=[120])
    running_jobs: int = Field(examples=[60])
    running_nodes: int = Field(examples=[88])
    oldest_pending_s: int | None = Field(
        description="How long the job has been eligible that has waited longest; null: none is, or "
        "jobs are private.",
        examples=[90000],
    )
    reasons: list[ReasonView] = Field(description="The commonest first.")
    nodes: int | None = Field(None, description="Null: not known, or private.", examples=[90])
    usable_nodes: int | None = Field(None, examples=[88])
    idle_nodes: int | None = Field(None, description="With nothing on them.", examples=[0])


class QueueView(Answer):
    nodes_as_of: datetime | None = Field(
        None, description="When the nodes were last looked at.", examples=[_NOON]
    )
    whole: PartitionView | None = Field(description="Null: the cluster was not looked at yet.")
    partitions: list[PartitionView] = Field(description="Empty where they are private.")


class SpreadView(WireModel):
    """Waits in seconds; null if so few jobs started that the figures would show whose they are."""

    jobs: int = Field(description="That started.", examples=[120])
    p10_s: float | None = Field(examples=[60.0])
    p50_s: float | None = Field(examples=[_HOURS_2])
    p90_s: float | None = Field(examples=[_HOURS_9])


class WaitPoint(SpreadView):
    at: datetime = Field(description="The hour or day begins.", examples=[_NOON])


class WaitGroup(SpreadView):
    name: str = Field(description="A partition, or a class.", examples=["gpu"])


class WaitsView(Answer):
    """Waits of jobs by the hour or day (UTC) in which they started, within 5 %."""

    since: datetime = Field(examples=[_NOON])
    until: datetime = Field(description="Not included.", examples=[_NOON])
    by: Span
    partition: str | None = Field(description="Null: all.", examples=["gpu"])
    nodes: SizeClass | None = Field(description="Null: all.")
    time_limit: LimitClass | None = Field(description="Null: all.")
    points: list[WaitPoint] = Field(description="Each hour or day of the range.")
    whole: SpreadView
    by_partition: list[WaitGroup] = Field(description="Empty where partitions are private.")
    by_nodes: list[WaitGroup]
    by_time_limit: list[WaitGroup]
    behind_h: int = Field(
        description="Hours of the range that are not summed up yet, or not again.", examples=[0]
    )
