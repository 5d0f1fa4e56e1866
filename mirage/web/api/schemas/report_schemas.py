"""Wire types of the reports: accuracy, impact, and the shadow report."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mirage.reports.daily_bootstrap import Interval
from mirage.web.api.schemas.chain_schemas import Answer

_NOON = "2026-03-02T12:00:00Z"
_MIDNIGHT = "2026-03-02T00:00:00Z"


class _RecordModel(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class PointView(_RecordModel):
    """The forecasts of one day or one week."""

    since: datetime = Field(examples=[_MIDNIGHT])
    count: int = Field(examples=[412])
    median_s: float | None = Field(description="The median of |p50 - wait|.", examples=[420.0])
    slurm_median_s: float | None = Field(
        description="The median of |Slurm's plan - wait| over the jobs for which Slurm planned a "
        "start.",
        examples=[900.0],
    )
    covered: float | None = Field(
        description="The share of waits from p10 to p90.", examples=[0.79]
    )


class BesideSlurmView(_RecordModel):
    """A comparison over the jobs for which Slurm planned a start at the same look."""

    count: int = Field(examples=[120])
    median_s: float | None = Field(examples=[600.0])
    slurm_median_s: float | None = Field(examples=[900.0])


class PlaceView(_RecordModel):
    """The accuracy in one partition; an empty name stands for all partitions together."""

    partition: str = Field(examples=["gpu"])
    count: int = Field(description="The number of known waits.", examples=[2811])
    days: int = Field(examples=[30])
    open: int = Field(description="The number of waits that are not over.", examples=[17])
    gave_up: int = Field(
        description="The number of jobs that were cancelled while they waited.", examples=[90]
    )
    waited: float | None = Field(
        description="The share of waits of a minute or longer.", examples=[0.6]
    )
    covered: float | None = Field(
        description="The share of waits from p10 to p90; 0.8 is right.", examples=[0.79]
    )
    covered_ci: Interval | None = Field(
        description="The 95 % interval over resampled days.", examples=[[0.74, 0.83]]
    )
    median_s: float | None = Field(description="The median of |p50 - wait|.", examples=[420.0])
    pinball_s: tuple[float, float, float] | None = Field(
        description="The mean pinball loss at p10, p50 and p90.", examples=[[100.0, 300.0, 200.0]]
    )
    beside: BesideSlurmView
    calibration: list[tuple[float, float]] = Field(
        description="Pairs of a quantile's level and the share of waits at or below that quantile.",
        examples=[[[0.5, 0.52]]],
    )
    series: list[PointView]


class QualityView(_RecordModel):
    jobs: int = Field(examples=[1200])
    days: int = Field(
        description="The number of days on which the jobs were submitted.", examples=[14]
    )
    within: float = Field(
        description="The share of waits from p10 to p90; 0.8 is right.", examples=[0.81]
    )
    below_p90: float = Field(
        description="The share of waits at or below p90; 0.9 is right.", examples=[0.9]
    )
    error_s: float = Field(description="The median of |p50 - wait|.", examples=[600.0])


class TriedView(_RecordModel):
    """The quality of the forecasts that users get before they submit a job, for one source."""

    source: str = Field(examples=["twin"])
    quality: QualityView


class HandoverAccuracyView(_RecordModel):
    """The accuracy of the forecasts by which one policy decided hand-overs."""

    source: str = Field(examples=["auto"])
    count: int = Field(examples=[41])
    covered: float | None = Field(examples=[0.8])
    median_s: float = Field(examples=[600.0])
    pinball_s: float = Field(description="The mean pinball loss at p50.", examples=[450.0])


class AccuracyView(Answer):
    model_config = ConfigDict(frozen=True)

    since: datetime = Field(examples=[_MIDNIGHT])
    until: datetime = Field(examples=[_NOON])
    step_s: int = Field(
        description="The length of time that one point of `series` covers.", examples=[86400]
    )
    too_few: str = Field(
        description="Why the data do not allow a conclusion yet; empty: there are enough data.",
        examples=[""],
    )
    places: list[PlaceView]
    tried: list[TriedView]
    handovers: list[HandoverAccuracyView]


class SavedView(_RecordModel):
    """Mirage against one baseline: sums over the compared hand-overs."""

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
        description="The 95 % interval over resampled days; null: fewer than six days.",
        examples=[[55.0, 88.0]],
    )


class PartView(_RecordModel):
    handovers: int = Field(examples=[41])
    interruption_h: float = Field(description="The measured interruption.", examples=[21.5])
    overlap_node_h: float = Field(description="The measured overlap.", examples=[33.0])
    returns: int = Field(description="How often early links gave their nodes back.", examples=[4])
    returned_node_h: float = Field(
        description="What these links held before, a part of `overlap_node_h`.", examples=[0.1]
    )
    returns_saved_node_h: float = Field(
        description="What these links would have held idle from their last return on, had they "
        "kept their nodes.",
        examples=[14.5],
    )
    compared: int = Field(
        description="The number of hand-overs for which the outcome of other policies is known.",
        examples=[38],
    )
    mirage_interruption_h: float = Field(
        description="The interruption over the compared hand-overs: measured in mode act, "
        "estimated in mode shadow.",
        examples=[21.5],
    )
    mirage_overlap_h: float = Field(
        description="The overlap over the compared hand-overs, in hours like `baseline_overlap_h`.",
        examples=[8.0],
    )
    mirage_overlap_node_h: float = Field(
        description="The overlap over the compared hand-overs in node-hours.", examples=[33.0]
    )
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
    saved_h: float | None = Field(
        description="The interruption saved against plain afterany dependencies.", examples=[22.0]
    )


class ImpactDayView(_RecordModel):
    at: datetime = Field(examples=[_MIDNIGHT])
    act_saved_h: float = Field(
        description="The interruption saved against plain afterany dependencies.", examples=[4.5]
    )
    shadow_saved_h: float = Field(examples=[0.0])
    overlap_node_h: float = Field(examples=[1.5])


class ImpactView(Answer):
    since: datetime = Field(examples=[_MIDNIGHT])
    until: datetime = Field(examples=[_NOON])
    own: bool = Field(
        description="Whether the figures cover only the caller's own chains.", examples=[False]
    )
    too_few: str = Field(examples=[""])
    act: PartView = Field(
        description="Mode act: Mirage's outcome is measured, that of other policies is estimated."
    )
    shadow: PartView = Field(
        description="Mode shadow: plain Slurm's outcome is measured, Mirage's is estimated."
    )
    unasked: int = Field(
        description="The number of hand-overs about which Mirage made no decision.", examples=[2]
    )
    released_while_away: int = Field(
        description="The number of hand-overs that Slurm released by a plan while Mirage was away: "
        "Mirage stored no look at the queue for more than 15 minutes around the release, or for "
        "more than three polling intervals if those are longer. A Slurm that does not answer "
        "counts too.",
        examples=[3],
    )
    partitions: list[PartitionImpactView]
    payers: list[PayerView] = Field(
        description="The users of accounts that spent the most overlap, 20 at most."
    )
    chains: list[PayerView] = Field(
        description="The chains that spent the most overlap, 20 at most."
    )
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
        description="The report as `mirage report shadow --json` prints it (docs/admin/report.md).",
        examples=[{"from": _MIDNIGHT, "until": _NOON, "groups": []}],
    )
