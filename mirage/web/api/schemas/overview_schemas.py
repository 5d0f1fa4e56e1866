"""Wire types of the data that the pages Now and Chain show."""

from datetime import datetime

from pydantic import Field

from mirage.domain.chain import Planner
from mirage.web.api.schemas.chain_schemas import Answer, ChainSummary, DecisionView, LinkView, Page
from mirage.web.api.schemas.wire_model import WireModel

_NOON = "2026-03-02T12:00:00Z"


class StartRangeView(WireModel):
    """The range of instants in which a link may start, by a forecast of its wait."""

    since: datetime = Field(
        description="The instant from which the wait is counted.", examples=[_NOON]
    )
    eligible: bool = Field(
        description="Whether the link is eligible; false: the range holds if it becomes eligible "
        "at `since`.",
        examples=[False],
    )
    p10: datetime = Field(examples=[_NOON])
    p50: datetime = Field(examples=[_NOON])
    p90: datetime = Field(examples=[_NOON])


class UpcomingView(WireModel):
    """A hand-over under way."""

    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    link: int = Field(description="The index of the successor in the chain.", examples=[3])
    submits: bool = Field(
        description="Whether the successor is not submitted yet.", examples=[False]
    )
    predecessor_end: datetime | None = Field(
        description="When the predecessor ended or, while it runs, when its time limit ends it; "
        "null: it has no time limit.",
        examples=[_NOON],
    )
    start: StartRangeView | None = Field(
        description="The forecast of the successor's start; null: there is none."
    )
    planned_release: datetime | None = Field(
        description="When the dependency in Slurm makes the link eligible without a further move; "
        "null: when its predecessor ends.",
        examples=[_NOON],
    )
    slurm_start: datetime | None = Field(
        description="The start that Slurm plans for the waiting link; null: Slurm plans none, for "
        "example for a held job.",
        examples=[_NOON],
    )
    decision: DecisionView | None = Field(description="The last decision about this hand-over.")


class OverviewRow(WireModel):
    chain: ChainSummary
    next: UpcomingView | None = Field(description="The hand-over under way; null: there is none.")


class OverviewPage(Page):
    """Live chains: chains at risk first, then paused ones, then by the end of the running link."""

    live: int = Field(examples=[120])
    at_risk: int = Field(examples=[2])
    paused: int = Field(examples=[5])
    soon: list[UpcomingView] = Field(
        description="The next hand-overs of active chains, soonest first; only on the first page."
    )
    items: list[OverviewRow]


class HandedOverView(WireModel):
    """A hand-over, complete or to come."""

    link: int = Field(description="The index of the successor in the chain.", examples=[3])
    predecessor_end: datetime | None = Field(
        description="When the predecessor ended or, while it runs, when its time limit ends it.",
        examples=[_NOON],
    )
    predecessor_ended: bool = Field(examples=[True])
    successor_start: datetime | None = Field(examples=[_NOON])
    freed_at: datetime | None = Field(
        description="When Mirage, or a planned release in Slurm, made the link eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Who released the link or planned its release; null: nothing has made it "
        "eligible.",
        examples=["service"],
    )
    interruption_h: float | None = Field(
        description="The interruption; null: the hand-over is not complete.", examples=[0.25]
    )
    overlap_h: float | None = Field(examples=[0.0])
    forecast: StartRangeView | None = Field(
        description="The forecast in force when the successor was released."
    )


class CoursePointView(WireModel):
    """A forecast made at `at`: when the link would start if it had been eligible at `at`."""

    at: datetime = Field(examples=[_NOON])
    p10: datetime = Field(examples=[_NOON])
    p50: datetime = Field(examples=[_NOON])
    p90: datetime = Field(examples=[_NOON])


class CourseView(WireModel):
    link: int = Field(description="The index of the successor in the chain.", examples=[3])
    points: list[CoursePointView]


class LinkLogView(WireModel):
    link: int = Field(examples=[3])
    job_id: int = Field(examples=[4711])
    file: str = Field(examples=["slurm-4711.out"])
    told: bool = Field(
        description="Whether the command line of the submission names the file; false: it is "
        "Slurm's default, and `#SBATCH --output` in the script may name another.",
        examples=[False],
    )


class TimelineView(Answer):
    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    links: list[LinkView]
    handovers: list[HandedOverView]
    course: CourseView | None = Field(
        description="How the forecast of one hand-over changed over time; null: there was none."
    )
    logs: list[LinkLogView] | None = Field(
        description="The output files of links that have run; null: the caller may not steer this "
        "chain.",
        examples=[None],
    )
