"""Wire types of what is the admins' alone."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from mirage.api.schemas.wire_model import RequestBody, WireModel
from mirage.http.model_paths import WORD
from mirage.services.control.kill_switch import Way

_NOON = "2026-03-02T12:00:00Z"
_TABLE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*\.npz$"

TableName = Annotated[str, Field(pattern=_TABLE, max_length=128, examples=["march.npz"])]


class PulledView(WireModel):
    way: Way
    by: str = Field(examples=["root"])
    at: datetime = Field(examples=[_NOON])
    stopped: list[str] = Field(
        description="Partitions that acted until then; empty text is the cluster.", examples=[[""]]
    )
    released_by: str = Field(examples=["removing the file"])


class KillSwitch(WireModel):
    """While any way pulls the switch, Mirage changes nothing in Slurm, and no mode can be `act`."""

    pulled: bool = Field(examples=[True])
    ways: list[PulledView] = Field(description="Earliest first.")
    file: str | None = Field(
        description="The file that pulls the switch while it exists.",
        examples=["/var/lib/mirage/shadow"],
    )


class Release(RequestBody):
    act_again: bool = Field(
        False,
        description="Set what was in mode act back to act; otherwise all stays in shadow.",
        examples=[False],
    )


class LimitView(WireModel):
    name: str = Field(examples=["max_touches"])
    value: float = Field(description="The value in force; 1 or 0 for yes or no.", examples=[6])
    unit: str = Field(examples=["node-hours"])
    meaning: str = Field(examples=["Moves that one hand-over may cost."])
    set_by: str = Field(
        description="`default`, `configuration`, or the admin who set it.", examples=["root"]
    )
    set_at: datetime | None = Field(description="Null: not by an admin.", examples=[_NOON])
    configured: float = Field(description="In force without an admin's.", examples=[6])


class LimitList(WireModel):
    items: list[LimitView]


class NewLimit(RequestBody):
    value: float | None = Field(
        ge=0, le=1e9, description="Null: back to the configured value.", examples=[4]
    )


class ModelLine(WireModel):
    model: str = Field(examples=["models/ensemble/3"])
    family: str | None = Field(examples=["xgboost"])
    promoted: bool = Field(examples=[True])
    trained_on: str | None = Field(examples=["ls6 1 node(s) 2026-01-01 to 2026-02-26"])
    gap_closed: float | None = Field(
        description="Of the gap between plain Slurm and the best there could be, on later weeks.",
        examples=[0.41],
    )
    fault: str | None = Field(description="Why it is not used.", examples=[None])


class ModelList(WireModel):
    items: list[ModelLine]
    tables: list[str] = Field(
        description="Episode tables that a model can be judged on.", examples=[["march.npz"]]
    )


class ModelView(ModelLine):
    card: dict[str, Any] = Field(description="Without its long parts.", examples=[{"format": "x"}])
    promotions: list[dict[str, Any]] = Field(
        description="Why versions of its name were promoted, newest first.",
        examples=[[{"model": "models/ensemble/3", "by": "root"}]],
    )


class Promote(RequestBody):
    """Both are judged on episode tables of days that neither was trained on."""

    version: str = Field(pattern=WORD, max_length=64, examples=["3"])
    tables: list[TableName] = Field(default_factory=list, max_length=64)
    force: bool = Field(False, description="Promote without a comparison.", examples=[False])


class Evidence(WireModel):
    """The evidence for a promotion of a model.

    All fields of the comparison are null if no version was in use, or if the promotion was forced.
    """

    model: str = Field(examples=["models/ensemble/3"])
    before: str | None = Field(description="The version in use until now.", examples=["2"])
    promoted: bool = Field(examples=[True])
    forced: bool = Field(examples=[False])
    cost_h: float | None = Field(None, description="Mean per hand-over.", examples=[1.1])
    cost_before_h: float | None = Field(None, examples=[1.4])
    difference_h: float | None = Field(None, description="New less old.", examples=[-0.3])
    difference_h_ci: tuple[float, float] | None = Field(
        None, description="95 %; it has to lie below zero.", examples=[[-0.5, -0.1]]
    )
    episodes: int | None = Field(None, examples=[480])
    days: int | None = Field(None, examples=[21])


class CostView(WireModel):
    command: str = Field(examples=["squeue"])
    calls: int = Field(examples=[1440])
    failures: int = Field(examples=[0])
    seconds: float = Field(examples=[86.4])
    unread_rows: int = Field(
        description="Rows of its answers that could not be read and were left out.",
        examples=[0],
    )
    calls_a_minute: float = Field(examples=[1.0])


class HourView(WireModel):
    at: datetime = Field(description="It begins then.", examples=[_NOON])
    calls: int = Field(examples=[92])


class SlurmctldView(WireModel):
    """The calls that slurmctld counts (`sdiag`): of Mirage's user there, and of all users."""

    at: datetime = Field(description="When it said so.", examples=[_NOON])
    since: datetime | None = Field(
        description="Its count began then; null: when slurmctld started.", examples=[_NOON]
    )
    user: str = Field(
        description="The user whose calls are counted, Mirage's or not.", examples=["mirage"]
    )
    calls: int = Field(examples=[1980])
    seconds: float = Field(
        description="The time that slurmctld took for these calls.", examples=[21.4]
    )
    all_calls: int = Field(examples=[48210])
    all_seconds: float = Field(examples=[913.0])


class PollingView(WireModel):
    """Mirage's own questions, as its worker has counted them; whole hours."""

    since: datetime = Field(examples=[_NOON])
    until: datetime = Field(examples=[_NOON])
    total: CostView
    commands: list[CostView] = Field(description="The most time first.")
    hours: list[HourView] = Field(description="Those with calls, oldest first.")
    slurmctld: SlurmctldView | None = Field(
        description="Its own count, asked each `polling.diag_s`; null: not asked yet, or at all."
    )


class TickView(WireModel):
    at: datetime = Field(examples=[_NOON])
    age_s: int = Field(examples=[34])
    took_s: float = Field(examples=[0.8])
    good_at: datetime | None = Field(description="The last without an error.", examples=[_NOON])
    worker: str = Field(description="HOST:PID.", examples=["slurm1:4711"])
    error: str = Field(description="Why the tick failed; empty: it did not.", examples=[""])
    version: str = Field(description="The worker's.", examples=["0.1.0"])


class LeaseView(WireModel):
    holder: str = Field(description="The worker that acts.", examples=["slurm1:4711"])
    until: datetime = Field(examples=[_NOON])
    expired: bool = Field(examples=[False])


class StatusView(WireModel):
    tick: TickView | None = Field(description="The worker's last round; null: none yet.")
    lease: LeaseView | None = Field(description="Null: no worker holds it.")
    database_bytes: int = Field(examples=[1048576])
    schema_version: str | None = Field(examples=["0050"])
    schema_known: str = Field(
        description="The schema version that this program needs.", examples=["0050"]
    )
    versions: dict[str, str] = Field(examples=[{"mirage": "0.1.0"}])
