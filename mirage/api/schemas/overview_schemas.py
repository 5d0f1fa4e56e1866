"""Wire types of what the pages Now and Chain show."""

from datetime import datetime

from pydantic import Field

from mirage.api.schemas.chain_schemas import Answer, ChainSummary, DecisionView, LinkView, Page
from mirage.api.schemas.wire_model import WireModel
from mirage.domain.chain import Planner

_NOON = "2026-03-02T12:00:00Z"


class StartRangeView(WireModel):
    """The range of instants in which a link may start, by a forecast of its wait."""

    since: datetime = Field(description="The wait is counted from then.", examples=[_NOON])
    eligible: bool = Field(
        description="Whether the link is eligible; false: if it were at `since`.",
        examples=[False],
    )
    p10: datetime = Field(examples=[_NOON])
    p50: datetime = Field(examples=[_NOON])
    p90: datetime = Field(examples=[_NOON])


class UpcomingView(WireModel):
    """A hand-over under way."""

    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    link: int = Field(description="The successor's index.", examples=[3])
    submits: bool = Field(
        description="Whether the successor is not submitted yet.", examples=[False]
    )
    predecessor_end: datetime | None = Field(
        description="By its time limit while it runs; null: it has none.", examples=[_NOON]
    )
    start: StartRangeView | None = Field(description="Null: no forecast.")
    planned_release: datetime | None = Field(
        description="When Slurm makes it eligible by itself, by its dependency; null: when its "
        "predecessor ends.",
        examples=[_NOON],
    )
    slurm_start: datetime | None = Field(
        description="That Slurm itself plans for it; null: it plans none, as of one that is held.",
        examples=[_NOON],
    )
    decision: DecisionView | None = Field(description="The last one on it.")


class OverviewRow(WireModel):
    chain: ChainSummary
    next: UpcomingView | None = Field(description="Null: no hand-over is under way.")


class OverviewPage(Page):
    """Live chains: those at risk first, then paused ones, then by the end of what runs."""

    live: int = Field(examples=[120])
    at_risk: int = Field(examples=[2])
    paused: int = Field(examples=[5])
    soon: list[UpcomingView] = Field(
        description="The next hand-overs of active chains, soonest first; on the first page alone."
    )
    items: list[OverviewRow]


class HandedOverView(WireModel):
    """A hand-over, complete or to come."""

    link: int = Field(description="The successor's index.", examples=[3])
    predecessor_end: datetime | None = Field(
        description="By its time limit while it runs.", examples=[_NOON]
    )
    predecessor_ended: bool = Field(examples=[True])
    successor_start: datetime | None = Field(examples=[_NOON])
    freed_at: datetime | None = Field(
        description="When Mirage, or a plan that stood in Slurm, made it eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Whose move or plan that was; null: nothing made it eligible.",
        examples=["service"],
    )
    interruption_h: float | None = Field(description="Null: not complete.", examples=[0.25])
    overlap_h: float | None = Field(examples=[0.0])
    forecast: StartRangeView | None = Field(description="The one in force at the move.")


class CoursePointView(WireModel):
    """A forecast made at `at`: when the link would start if it had been eligible at `at`."""

    at: datetime = Field(examples=[_NOON])
    p10: datetime = Field(examples=[_NOON])
    p50: datetime = Field(examples=[_NOON])
    p90: datetime = Field(examples=[_NOON])


class CourseView(WireModel):
    link: int = Field(description="The successor's index.", examples=[3])
    points: list[CoursePointView]


class LinkLogView(WireModel):
    link: int = Field(examples=[3])
    job_id: int = Field(examples=[4711])
    file: str = Field(examples=["slurm-4711.out"])
    told: bool = Field(
        description="By the command line it was submitted with; false: Slurm's default, which "
        "`#SBATCH --output` in the script changes.",
        examples=[False],
    )


class TimelineView(Answer):
    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    links: list[LinkView]
    handovers: list[HandedOverView]
    course: CourseView | None = Field(
        description="How the forecast of one hand-over went; null: there was none."
    )
    logs: list[LinkLogView] | None = Field(
        description="Of links that have run; null for whoever the chain does not obey.",
        examples=[None],
    )
