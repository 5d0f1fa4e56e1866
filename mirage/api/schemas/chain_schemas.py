"""Wire types. Instants are RFC 3339 in UTC; durations are seconds (`_s`) or hours (`_h`)."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mirage.api.schemas.wire_model import RequestBody, WireModel
from mirage.domain.chain import (
    MAX_LINKS,
    ChainMode,
    ChainState,
    LinkState,
    Planner,
    Position,
    Presubmit,
    Style,
)
from mirage.domain.chain_cause import Actor, Reason
from mirage.domain.decision import Action, Mode
from mirage.domain.job import JobState
from mirage.domain.submission import Recipe
from mirage.store.chains.decisions import Effect

_NOON = "2026-03-02T12:00:00Z"
_CHAIN_ID = "k3v9x2m7q1zt"
_TEN_YEARS_S = 3650 * 86400
_LARGEST = 2**63 - 1
"""That a column of the database holds."""

ChainIdText = Annotated[str, Field(pattern=r"^[a-z0-9]{8,32}$", examples=[_CHAIN_ID])]


class Answer(WireModel):
    as_of: datetime | None = Field(
        None, description="When the cluster was last looked at.", examples=[_NOON]
    )
    stale: bool = Field(
        description="Whether `as_of` is more than three polls ago.", examples=[False]
    )


class Page(Answer):
    next: str | None = Field(
        None,
        description="Where the next page is; null on the last one.",
        examples=["/api/v1/chains?limit=100&cursor=k3v9x2m7q1zt"],
    )


class NewRecipe(RequestBody):
    """The recipe of a chain of mode submit, for a service that submits its links by slurmrestd.

    Any other service drops the recipe. No answer ever shows it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "carrier": f"/home/alice/.local/state/mirage/{_CHAIN_ID}/carrier/job.sh",
                    "directory": "/home/alice",
                    "name": "job.sh",
                    "options": {"time": "48:00:00", "gres": "gpu:8"},
                }
            ]
        },
    )

    carrier: str = Field(min_length=2, max_length=4096, description="The chain's own file.")
    directory: str = Field(min_length=1, max_length=4096, description="Of the submission.")
    name: str = Field(min_length=1, max_length=1024, description="Of the jobs.")
    comment: str = Field("", max_length=4096, description="The user's own words in it.")
    umask: int = Field(0o022, ge=0, le=0o777, description="Of the submission.")
    options: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")],
        Annotated[str, Field(max_length=4096)],
    ] = Field(max_length=60, description="Of sbatch, by long name.")

    def to_recipe(self) -> Recipe:
        return Recipe(**self.model_dump())


class NewChain(RequestBody):
    """A registration of a chain. Its links are the jobs that Slurm shows for the caller."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "chain_id": _CHAIN_ID,
                    "job_id": 4711,
                    "links": 8,
                    "policy": None,
                    "overlap_price": None,
                }
            ]
        },
    )

    chain_id: ChainIdText
    job_id: int = Field(gt=0, le=_LARGEST, description="The first link's.")
    links: int = Field(ge=1, le=MAX_LINKS)
    policy: str | None = Field(None, max_length=80, description="Default: the service's.")
    overlap_price: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Hours of interruption that an hour of overlap is worth. Default: 0.5; of "
        "style switch: (start-up + expected interruption) / time limit, from 0.01 to 0.1.",
    )
    total_s: int | None = Field(
        None, ge=1, le=_TEN_YEARS_S, description="The chain ends when its links have run so long."
    )
    max_overlap_s: int | None = Field(
        None,
        ge=0,
        le=_TEN_YEARS_S,
        description="How early a link may start before its predecessor's end; 0: never. "
        "Default: the smaller of four hours and a quarter of the predecessor's time limit; of "
        "style switch the time limit.",
    )
    presubmit: Presubmit | None = Field(
        None, description="Links in the queue beforehand. Default: next."
    )
    style: Style | None = Field(
        None,
        description="What a link that starts early does beside its predecessor. Default, and null: "
        "concurrent, as of a wrapped sbatch from before there was sequential.",
    )
    mode: ChainMode | None = Field(
        None, description="Whether a successor stands in the queue. Default: standby."
    )
    min_runtime_s: int | None = Field(
        None,
        ge=0,
        le=_TEN_YEARS_S,
        description="A link that fails sooner has failed fast. Default: ten minutes.",
    )
    recipe: NewRecipe | None = None


class AtRisk(WireModel):
    """Why the chain's next link may start late, whatever the queue does."""

    reason: str = Field(
        description="One word: Slurm's, or NoStandby, StandbyVanished, SubmitRefused, LinkUnknown, "
        "Maintenance.",
        examples=["ReqNodeNotAvail"],
    )
    says: str = Field(examples=["link 3 (job 4720) waits: nodes that it asks for by name are down"])
    advice: str = Field(description="What to do.", examples=["Wait for the nodes, or ..."])


class ChainSummary(WireModel):
    chain_id: str = Field(examples=[_CHAIN_ID])
    user: str = Field(examples=["alice"])
    uid: int = Field(examples=[1000])
    state: ChainState
    note: str = Field(
        description="Why the chain is in this state or at risk, in words for people.", examples=[""]
    )
    actor: Actor | None = Field(
        description="Who brought the chain into this state; null: nobody.", examples=[None]
    )
    reason: Reason | None = Field(description="Why, as one word.", examples=[None])
    links_planned: int | None = Field(
        description="Null: found in Slurm, never registered.", examples=[8]
    )
    links_started: int = Field(examples=[3])
    running: list[int] = Field(description="Jobs that run now.", examples=[[4711]])
    policy: str | None = Field(description="Null: the service's default.", examples=[None])
    overlap_price: float = Field(
        description="Hours of interruption that an hour of overlap costs.", examples=[0.5]
    )
    overlap_price_why: str = Field(
        description="Where the price comes from, in words for people.",
        examples=["the default: nodes of two links are held"],
    )
    total_s: int | None = Field(description="Null: its number of links decides.", examples=[None])
    max_overlap_s: int = Field(
        description="How early its next link may start; 0: its links never overlap. Where nobody "
        "said: the smaller of four hours and a quarter of the newest link's time limit; of style "
        "switch that limit; 0 of a "
        "chain that was never registered.",
        examples=[14400],
    )
    presubmit: Presubmit = Field(examples=["next"])
    style: Style | None = Field(
        description="Null: concurrent, of a chain from before there was sequential.",
        examples=["sequential"],
    )
    mode: ChainMode = Field(examples=["standby"])
    at_risk: AtRisk | None = Field(description="Null: it is not.", examples=[None])
    created_at: datetime = Field(examples=[_NOON])
    handovers_done: int = Field(description="Complete ones.", examples=[2])
    interruption_h: float = Field(description="Of all of them together.", examples=[0.25])
    overlap_h: float = Field(examples=[1.5])


class LinkView(WireModel):
    index: int = Field(description="1 is the chain's first job.", examples=[3])
    job_id: int = Field(examples=[4711])
    state: LinkState
    position: Position = Field(description="The link's position in the queue as a standby.")
    partition: str = Field(examples=["gpu"])
    account: str = Field(examples=["physics"])
    nodes: int = Field(examples=[4])
    time_limit_s: int | None = Field(description="Null: unlimited or not known.", examples=[172800])
    unlimited: bool = Field(description="There is no time limit.", examples=[False])
    submit: datetime = Field(examples=[_NOON])
    eligible: datetime | None = Field(examples=[_NOON])
    freed_at: datetime | None = Field(
        description="When Mirage, or a plan that stood in Slurm, made it eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Whose move or plan that was; null: nothing made it eligible.",
        examples=["service"],
    )
    planned_release: datetime | None = Field(
        description="When Slurm makes it eligible by itself, as its dependency says; null: when "
        "its predecessor ends.",
        examples=[_NOON],
    )
    planned_by: Planner | None = Field(
        description="Who wrote that; user without a planned release: a plan was taken away by "
        "hand.",
        examples=["service"],
    )
    start: datetime | None = Field(examples=[_NOON])
    end: datetime | None = Field(examples=[None])
    end_state: JobState | None = Field(examples=[None])
    reason: str = Field(description="Why it waits, in Slurm's word.", examples=["Priority"])
    hindered: str = Field(
        description="A cause of the wait that no forecast could know; empty: none.",
        examples=[""],
    )
    planned_start: datetime | None = Field(
        description="That Slurm plans while it waits; null: it plans none, as of a held one.",
        examples=[None],
    )
    waits_for: int | None = Field(
        description="The link runs, and its script waits until this other link has ended.",
        examples=[None],
    )


class HandoverView(WireModel):
    link: int = Field(description="The successor's index.", examples=[2])
    predecessor_end: datetime = Field(examples=[_NOON])
    successor_start: datetime = Field(examples=[_NOON])
    interruption_h: float = Field(examples=[0.0])
    overlap_h: float = Field(examples=[0.75])
    cost_h: float = Field(
        description="interruption_h + overlap_price * overlap_h", examples=[0.375]
    )


class ChainView(ChainSummary, Answer):
    links: list[LinkView]
    handovers: list[HandoverView] = Field(description="Complete ones, oldest first.")


class NextLinkView(WireModel):
    """The instruction to a running link about the next link."""

    submit_now: bool = Field(
        description="Of a chain of mode submit: submit the next link, eligible at once.",
        examples=[False],
    )
    ask_again_s: int = Field(description="Otherwise: ask again after so long.", examples=[300])
    mode: Mode | None = Field(
        default=None,
        description="The service's mode for the link's partition; absent for mode submit.",
        examples=["act"],
    )
    lead_s: int | None = Field(
        default=None,
        description="Plan the next link's release so long before the asking link's time limit; "
        "null: plan none.",
        examples=[7200],
    )


class CompletionEvent(RequestBody):
    """A report that a job has ended. Mirage then reads the queue sooner, and trusts only Slurm."""

    job_id: int = Field(gt=0, le=_LARGEST, examples=[4711])


class CompletionView(WireModel):
    looks: bool = Field(
        description="Whether the job is a link, so that Mirage reads the queue soon.",
        examples=[True],
    )


class ChainPage(Page):
    items: list[ChainSummary]


class ForecastView(WireModel):
    """A forecast of how long a job would wait if it became eligible now."""

    p10_s: float | None = Field(examples=[120.0])
    p50_s: float = Field(examples=[1800.0])
    p90_s: float | None = Field(examples=[14400.0])
    samples: int = Field(description="Waits that it was made from.", examples=[200])


class DecisionView(WireModel):
    id: int = Field(examples=[17])
    at: datetime = Field(examples=[_NOON])
    last_at: datetime = Field(
        description="The same decision was repeated until then.", examples=[_NOON]
    )
    repeats: int = Field(examples=[59])
    chain_id: str = Field(examples=[_CHAIN_ID])
    link: int = Field(description="The standby's index.", examples=[3])
    mode: Mode
    policy: str = Field(examples=["quantile"])
    action: Action
    reason: str = Field(examples=["95 min left, and the lead is 96 min"])
    time_left_s: int | None = Field(
        description="To the predecessor's planned end.", examples=[5700]
    )
    forecast: ForecastView | None
    release_at: datetime | None = Field(
        description="When the policy expects to release the standby; of a plan, when Slurm will. "
        "Null: it does not say.",
        examples=[_NOON],
    )
    effect: Effect
    error: str = Field(description="Slurm's words where it refused.", examples=[""])
    inputs: dict[str, Any] = Field(examples=[{"predecessor": 4711, "standby": 4720}])


class DecisionPage(Page):
    items: list[DecisionView]


class JobView(WireModel):
    job_id: int = Field(examples=[4711])
    name: str = Field(examples=["train"])
    user: str = Field(examples=["alice"])
    account: str = Field(examples=["physics"])
    partition: str = Field(examples=["gpu"])
    qos: str = Field(examples=["normal"])
    state: JobState
    reason: str = Field(description="Why it waits, in Slurm's word.", examples=["Priority"])
    nodes: int = Field(examples=[4])
    gpus: int = Field(examples=[16])
    time_limit_s: int | None = Field(description="Null: unlimited or not known.", examples=[172800])
    unlimited: bool = Field(description="There is no time limit.", examples=[False])
    submit: datetime = Field(examples=[_NOON])
    eligible: datetime | None = Field(examples=[_NOON])
    start: datetime | None = Field(
        description="When the job began to run; null: it has not begun.", examples=[_NOON]
    )
    end: datetime | None = Field(
        description="When it ended, whether it had run or not.", examples=[None]
    )
    planned_start: datetime | None = Field(
        description="When Slurm plans to start it, while it waits.", examples=[None]
    )
    cancelled_at: datetime | None = Field(
        description="When the job was cancelled without having run.", examples=[None]
    )
    wait_s: int | None = Field(
        description="From when it was submitted and eligible to its start, of a job that has "
        "started.",
        examples=[1800],
    )


class JobPage(Page):
    items: list[JobView]


class Health(WireModel):
    status: Literal["ok"] = "ok"
