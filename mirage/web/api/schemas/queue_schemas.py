"""Wire types of the queue, and of waits."""

from datetime import datetime

from pydantic import Field

from mirage.domain.wait_buckets import LimitClass, SizeClass
from mirage.reports.wait_statistics import Span
from mirage.web.api.schemas.chain_schemas import Answer
from mirage.web.api.schemas.wire_model import WireModel

_NOON = "2026-03-02T12:00:00Z"
_HOURS_2, _HOURS_9 = 7200.0, 32400.0


class ReasonView(WireModel):
    """One reason why jobs wait."""

    reason: str = Field(description="Slurm's pending reason.", examples=["Priority"])
    jobs: int = Field(examples=[40])
    cure: str = Field(
        description="What ends the wait: queue, jobs, date, or person (somebody has to act).",
        examples=["queue"],
    )
    says: str = Field(
        description='The reason in words, without a full stop; "it" is the job. Empty: not known.',
        examples=["jobs with a higher priority stand before it"],
    )
    advice: str = Field(description="What the job's owner can do; empty: nothing.", examples=[""])


class PartitionView(WireModel):
    partition: str = Field(
        description="The name of the partition; empty: all partitions together.", examples=["gpu"]
    )
    pending_jobs: int = Field(examples=[40])
    pending_nodes: int = Field(examples=[120])
    running_jobs: int = Field(examples=[60])
    running_nodes: int = Field(examples=[88])
    oldest_pending_s: int | None = Field(
        description="The time from when the longest-waiting job became eligible until `as_of`; "
        "null: no job waits, or jobs are private.",
        examples=[90000],
    )
    reasons: list[ReasonView] = Field(description="The reasons why jobs wait, the commonest first.")
    nodes: int | None = Field(
        None, description="The number of nodes; null: not known, or private.", examples=[90]
    )
    usable_nodes: int | None = Field(None, examples=[88])
    idle_nodes: int | None = Field(
        None, description="The number of nodes on which no job runs.", examples=[0]
    )


class QueueView(Answer):
    nodes_as_of: datetime | None = Field(
        None, description="When Mirage last read the nodes' states from Slurm.", examples=[_NOON]
    )
    whole: PartitionView | None = Field(
        description="The whole cluster; null: Mirage has not read the queue yet."
    )
    partitions: list[PartitionView] = Field(
        description="The partitions; empty where partitions are private."
    )


class SpreadView(WireModel):
    """Waits in seconds; null if so few jobs started that the figures would reveal their users."""

    jobs: int = Field(description="The number of jobs that started.", examples=[120])
    p10_s: float | None = Field(examples=[60.0])
    p50_s: float | None = Field(examples=[_HOURS_2])
    p90_s: float | None = Field(examples=[_HOURS_9])


class WaitPoint(SpreadView):
    at: datetime = Field(description="When the hour or day begins.", examples=[_NOON])


class WaitGroup(SpreadView):
    name: str = Field(description="The name of the partition or class.", examples=["gpu"])


class WaitsView(Answer):
    """Waits of jobs by the hour or day (UTC) in which they started, within 5 %."""

    since: datetime = Field(examples=[_NOON])
    until: datetime = Field(
        description="The end of the range, which is not included.", examples=[_NOON]
    )
    by: Span
    partition: str | None = Field(
        description="The partition; null: all partitions.", examples=["gpu"]
    )
    nodes: SizeClass | None = Field(description="The class of sizes; null: all sizes.")
    time_limit: LimitClass | None = Field(
        description="The class of time limits; null: all time limits."
    )
    points: list[WaitPoint] = Field(description="The waits of each hour or day of the range.")
    whole: SpreadView
    by_partition: list[WaitGroup] = Field(description="Empty where partitions are private.")
    by_nodes: list[WaitGroup]
    by_time_limit: list[WaitGroup]
    behind_h: int = Field(
        description="The number of hours of the range whose sums are missing or out of date.",
        examples=[0],
    )
