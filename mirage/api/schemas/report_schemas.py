"""Wire types of what is looked back on: accuracy, impact, and the shadow report."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mirage.api.schemas.chain_schemas import Answer
from mirage.services.reports.daily_bootstrap import Interval

_NOON = "2026-03-02T12:00:00Z"
_MIDNIGHT = "2026-03-02T00:00:00Z"


class _RecordModel(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class PointView(_RecordModel):
    """A day or a week."""

    since: datetime = Field(examples=[_MIDNIGHT])
    count: int = Field(examples=[412])
    median_s: float | None = Field(description="Of |p50 - wait|.", examples=[420.0])
    slurm_median_s: float | None = Field(
        description="Of |Slurm's plan - wait|, where there was a plan.", examples=[900.0]
    )
    covered: float | None = Field(description="Share from p10 to p90.", examples=[0.79])


class BesideSlurmView(_RecordModel):
    """A comparison over the jobs for which Slurm planned a start at the same look."""

    count: int = Field(examples=[120])
    median_s: float | None = Field(examples=[600.0])
    slurm_median_s: float | None = Field(examples=[900.0])


class PlaceView(_RecordModel):
    """A partition; all together is the one without a name."""

    partition: str = Field(examples=["gpu"])
    count: int = Field(description="Waits that are known.", examples=[2811])
    days: int = Field(examples=[30])
    open: int = Field(description="Waits that are not over.", examples=[17])
    gave_up: int = Field(description="Cancelled while they waited.", examples=[90])
    waited: float | None = Field(description="Share of a minute or longer.", examples=[0.6])
    covered: float | None = Field(
        description="Share of waits from p10 to p90: 0.8 is right.", examples=[0.79]
    )
    covered_ci: Interval | None = Field(
        description="95 %, over resampled days.", examples=[[0.74, 0.83]]
    )
    median_s: float | None = Field(description="Of |p50 - wait|.", examples=[420.0])
    pinball_s: tuple[float, float, float] | None = Field(
        description="Mean loss at p10, p50, p90.", examples=[[100.0, 300.0, 200.0]]
    )
    beside: BesideSlurmView
    calibration: list[tuple[float, float]] = Field(
        description="Level, and share of waits at or below that quantile.",
        examples=[[[0.5, 0.52]]],
    )
    series: list[PointView]


class QualityView(_RecordModel):
    jobs: int = Field(examples=[1200])
    days: int = Field(description="On which they were submitted.", examples=[14])
    within: float = Field(description="Share from p10 to p90: 0.8 is right.", examples=[0.81])
    below_p90: float = Field(description="0.9 is right.", examples=[0.9])
    error_s: float = Field(description="Median of |p50 - wait|.", examples=[600.0])


class TriedView(_RecordModel):
    """The quality of the forecasts that users get before they submit a job, for one source."""

    source: str = Field(examples=["twin"])
    quality: QualityView


class HandoverAccuracyView(_RecordModel):
    """Forecasts that hand-overs were decided by, of one policy."""

    source: str = Field(examples=["auto"])
    count: int = Field(examples=[41])
    covered: float | None = Field(examples=[0.8])
    median_s: float = Field(examples=[600.0])
    pinball_s: float = Field(description="Mean loss at p50.", examples=[450.0])


class AccuracyView(Answer):
    model_config = ConfigDict(frozen=True)

    since: datetime = Field(examples=[_MIDNIGHT])
    until: datetime = Field(examples=[_NOON])
    step_s: int = Field(description="Of the points of series.", examples=[86400])
    too_few: str = Field(
        description="Why nothing is to be concluded yet; empty where there is enough.",
        examples=[""],
    )
    places: list[PlaceView]
    tried: list[TriedView]
    handovers: list[HandoverAccuracyView]


class SavedView(_RecordModel):
    """Against one baseline, over the compared hand-overs in sum."""

    baseline: str = Field(examples=["reactive"])
    compared: int = Field(
        description="Hand-overs for which this baseline's outcome is known.", examples=[38]
    )
    baseline_interruption_h: float = Field(examples=[92.5])
    baseline_overlap_h: float = Field(examples=[0.0])
    mirage_interruption_h: float = Field(examples=[21.5])
    mirage_overlap_h: float = Field(examples=[8.0])
    interruption_saved_h: float = Field(examples=[71.0])
    interruption_saved_h_ci: Interval | None = Field(
        description="95 %, over resampled days; null of fewer than six days.",
        examples=[[55.0, 88.0]],
    )


class PartView(_RecordModel):
    handovers: int = Field(examples=[41])
    interruption_h: float = Field(description="As it was.", examples=[21.5])
    overlap_node_h: float = Field(description="As it was.", examples=[33.0])
    compared: int = Field(description="Those that other policies are told of.", examples=[38])
    mirage_interruption_h: float = Field(
        description="Of the compared: in mode act as it was, in mode shadow as it would have been.",
        examples=[21.5],
    )
    mirage_overlap_h: float = Field(
        description="Of the compared, in hours as `baseline_overlap_h` is.", examples=[8.0]
    )
    mirage_overlap_node_h: float = Field(description="The same in node-hours.", examples=[33.0])
    saved: list[SavedView]


class PartitionImpactView(_RecordModel):
    partition: str = Field(examples=["gpu"])
    act: PartView
    shadow: PartView


class PayerView(_RecordModel):
    """The cost and gain of mode act for one user of an account, or for one chain."""

    account: str = Field(examples=["physics"])
    chain_id: str = Field(examples=[""])
    partition: str = Field(examples=[""])
    user: str = Field(examples=["alice"])
    handovers: int = Field(examples=[12])
    interruption_h: float = Field(examples=[3.5])
    overlap_node_h: float = Field(examples=[9.0])
    saved_h: float | None = Field(description="Against plain afterany.", examples=[22.0])


class ImpactDayView(_RecordModel):
    at: datetime = Field(examples=[_MIDNIGHT])
    act_saved_h: float = Field(description="Against plain afterany.", examples=[4.5])
    shadow_saved_h: float = Field(examples=[0.0])
    overlap_node_h: float = Field(examples=[1.5])


class ImpactView(Answer):
    since: datetime = Field(examples=[_MIDNIGHT])
    until: datetime = Field(examples=[_NOON])
    own: bool = Field(description="Of the caller's own chains alone.", examples=[False])
    too_few: str = Field(examples=[""])
    act: PartView = Field(description="Measured; other policies are estimated.")
    shadow: PartView = Field(description="Plain Slurm's, measured; Mirage's is estimated.")
    unasked: int = Field(description="Hand-overs Mirage was not asked about.", examples=[2])
    partitions: list[PartitionImpactView]
    payers: list[PayerView] = Field(description="Who spent most overlap, 20 at most.")
    chains: list[PayerView] = Field(description="The chains that spent most, 20 at most.")
    days: list[ImpactDayView]


class RecommendationView(BaseModel):
    model_config = ConfigDict(frozen=True)

    verdict: str = Field(examples=["early-dependency"])
    advice: str = Field(examples=["A plain early dependency is as good here: no Mirage is needed."])
    reason: str = Field(examples=["Against it Mirage's cost differs by +0.02 [-0.1, +0.1] h."])


class ShadowReportView(Answer):
    made_at: datetime = Field(examples=[_NOON])
    recommendation: RecommendationView
    report: dict[str, Any] = Field(
        description="As `mirage report shadow --json` prints it (docs/admin/report.md).",
        examples=[{"from": _MIDNIGHT, "until": _NOON, "groups": []}],
    )
