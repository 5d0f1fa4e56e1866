"""Wire types of the routes that only admins may use."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from mirage.provision.control.kill_switch import Way
from mirage.web.api.schemas.wire_model import RequestBody, WireModel
from mirage.web.shared.model_paths import WORD

_NOON = "2026-03-02T12:00:00Z"
_TABLE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*\.npz$"

TableName = Annotated[str, Field(pattern=_TABLE, max_length=128, examples=["march.npz"])]


class PulledView(WireModel):
    way: Way
    by: str = Field(examples=["root"])
    at: datetime = Field(examples=[_NOON])
    stopped: list[str] = Field(
        description="The partitions that were in mode act until then; an empty name is the whole "
        "cluster.",
        examples=[[""]],
    )
    released_by: str = Field(examples=["removing the file"])


class KillSwitch(WireModel):
    """While any way pulls the switch, Mirage changes nothing in Slurm, and no mode can be `act`."""

    pulled: bool = Field(examples=[True])
    ways: list[PulledView] = Field(
        description="The ways by which the switch is pulled, earliest first."
    )
    file: str | None = Field(
        description="The file that pulls the switch while it exists.",
        examples=["/var/lib/mirage/shadow"],
    )


class Release(RequestBody):
    act_again: bool = Field(
        False,
        description="Whether to set what was in mode act back to act; otherwise everything stays "
        "in shadow.",
        examples=[False],
    )


class LimitView(WireModel):
    name: str = Field(examples=["max_touches"])
    value: float = Field(description="The value in force; 1 is yes and 0 is no.", examples=[6])
    unit: str = Field(examples=["node-hours"])
    meaning: str = Field(examples=["Moves that one hand-over may cost."])
    set_by: str = Field(
        description="`default`, `configuration`, or the admin who set it.", examples=["root"]
    )
    set_at: datetime | None = Field(
        description="When an admin set the value; null: no admin did.", examples=[_NOON]
    )
    configured: float = Field(
        description="The value in force if no admin sets another one.", examples=[6]
    )


class LimitList(WireModel):
    items: list[LimitView]


class NewLimit(RequestBody):
    value: float | None = Field(
        ge=0,
        le=1e9,
        description="The new value; null: return to the configured value.",
        examples=[4],
    )


class ModelLine(WireModel):
    model: str = Field(examples=["models/ensemble/3"])
    family: str | None = Field(examples=["xgboost"])
    promoted: bool = Field(examples=[True])
    trained_on: str | None = Field(examples=["ls6 1 node(s) 2026-01-01 to 2026-02-26"])
    gap_closed: float | None = Field(
        description="The share of the gap between plain Slurm and the best possible policy that "
        "the model closes, measured on later weeks.",
        examples=[0.41],
    )
    fault: str | None = Field(
        description="Why the model is not used; null: nothing is wrong with it.", examples=[None]
    )


class ModelList(WireModel):
    items: list[ModelLine]
    tables: list[str] = Field(
        description="The episode tables on which a model can be judged.", examples=[["march.npz"]]
    )


class ModelView(ModelLine):
    card: dict[str, Any] = Field(
        description="The model card without its long parts.", examples=[{"format": "x"}]
    )
    promotions: list[dict[str, Any]] = Field(
        description="Why versions of this model were promoted, newest first.",
        examples=[[{"model": "models/ensemble/3", "by": "root"}]],
    )


class Promote(RequestBody):
    """A promotion of a version.

    The episode tables cover days on which neither version was trained.
    """

    version: str = Field(pattern=WORD, max_length=64, examples=["3"])
    tables: list[TableName] = Field(default_factory=list, max_length=64)
    force: bool = Field(False, description="Promote without a comparison.", examples=[False])


class Evidence(WireModel):
    """The evidence for a promotion of a model.

    All fields of the comparison are null if the promotion was forced, or if the version was in use.
    """

    model: str = Field(examples=["models/ensemble/3"])
    before: str | None = Field(
        description="The version in use before the promotion.", examples=["2"]
    )
    promoted: bool = Field(examples=[True])
    forced: bool = Field(examples=[False])
    compared_with: str | None = Field(
        None,
        description="The version in use; without one, the better of the twin and `quantile`.",
        examples=["models/ensemble/2"],
    )
    why: str = Field("", description="The comparison in words.", examples=[""])
    cost_h: float | None = Field(None, description="The mean cost of a hand-over.", examples=[1.1])
    cost_before_h: float | None = Field(None, examples=[1.4])
    difference_h: float | None = Field(
        None,
        description="The cost of the new version minus that of what it is compared with.",
        examples=[-0.3],
    )
    difference_h_ci: tuple[float, float] | None = Field(
        None,
        description="The 95 % interval of the difference. The whole interval has to lie below "
        "zero.",
        examples=[[-0.5, -0.1]],
    )
    episodes: int | None = Field(None, examples=[480])
    days: int | None = Field(None, examples=[21])


class CostView(WireModel):
    command: str = Field(examples=["squeue"])
    calls: int = Field(examples=[1440])
    failures: int = Field(examples=[0])
    seconds: float = Field(examples=[86.4])
    unread_rows: int = Field(
        description="Rows of the command's answers that Mirage could not read and left out.",
        examples=[0],
    )
    calls_a_minute: float = Field(examples=[1.0])


class HourView(WireModel):
    at: datetime = Field(description="When the hour begins.", examples=[_NOON])
    calls: int = Field(examples=[92])


class SlurmctldView(WireModel):
    """The calls that slurmctld counts (`sdiag`): those of Mirage's user, and those of all users."""

    at: datetime = Field(description="When slurmctld reported these figures.", examples=[_NOON])
    since: datetime | None = Field(
        description="When slurmctld's count began; null: when slurmctld started.", examples=[_NOON]
    )
    user: str = Field(
        description="The user whose calls are counted, even if other programs of this user make "
        "some of them.",
        examples=["mirage"],
    )
    calls: int = Field(examples=[1980])
    seconds: float = Field(
        description="The time that slurmctld took for these calls.", examples=[21.4]
    )
    all_calls: int = Field(examples=[48210])
    all_seconds: float = Field(examples=[913.0])


class PollingView(WireModel):
    """Mirage's calls of Slurm commands, as its worker counted them in whole hours."""

    since: datetime = Field(examples=[_NOON])
    until: datetime = Field(examples=[_NOON])
    total: CostView
    commands: list[CostView] = Field(
        description="The commands, those that took the most time first."
    )
    hours: list[HourView] = Field(description="The hours that have calls, oldest first.")
    slurmctld: SlurmctldView | None = Field(
        description="slurmctld's own count, read every `polling.diag_s` seconds; null: not read "
        "yet, or never read."
    )


class TickView(WireModel):
    at: datetime = Field(examples=[_NOON])
    age_s: int = Field(examples=[34])
    took_s: float = Field(examples=[0.8])
    good_at: datetime | None = Field(
        description="When a round last ended without an error.", examples=[_NOON]
    )
    worker: str = Field(description="HOST:PID.", examples=["slurm1:4711"])
    error: str = Field(description="Why the round failed; empty: it did not fail.", examples=[""])
    version: str = Field(description="The version of the worker.", examples=["0.1.0"])


class LeaseView(WireModel):
    holder: str = Field(description="The worker that acts.", examples=["slurm1:4711"])
    until: datetime = Field(examples=[_NOON])
    expired: bool = Field(examples=[False])


class StatusView(WireModel):
    tick: TickView | None = Field(description="The worker's last round; null: there was none yet.")
    lease: LeaseView | None = Field(
        description="The lease of the acting worker; null: no worker holds it."
    )
    database_bytes: int = Field(examples=[1048576])
    schema_version: str | None = Field(examples=["0050"])
    schema_known: str = Field(
        description="The schema version that this program needs.", examples=["0050"]
    )
    versions: dict[str, str] = Field(examples=[{"mirage": "0.1.0"}])
