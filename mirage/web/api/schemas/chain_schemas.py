"""Wire types of chains. Instants are RFC 3339 in UTC; durations: seconds (`_s`) or hours (`_h`)."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BeforeValidator, Field, computed_field

from mirage.database.chains.decisions import Effect
from mirage.domain.chain import (
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
from mirage.domain.timelimit import UNLIMITED
from mirage.web.api.schemas.wire_model import RequestBody, WireModel
from mirage.web.decision_text import describe_decision

_NOON = "2026-03-02T12:00:00Z"
_CHAIN_ID = "k3v9x2m7q1zt"
_LARGEST = 2**63 - 1
"""The largest integer that a column of the database holds."""


class Answer(WireModel):
    as_of: datetime | None = Field(
        None, description="When Mirage last read the cluster's state from Slurm.", examples=[_NOON]
    )
    stale: bool = Field(
        description="Whether `as_of` is more than three polls ago.", examples=[False]
    )


class Page(Answer):
    next: str | None = Field(
        None,
        description="The address of the next page; null on the last page.",
        examples=["/api/v1/chains?limit=100&cursor=k3v9x2m7q1zt"],
    )


class AtRisk(WireModel):
    """Why the chain's next link may start late, whatever the queue does."""

    reason: str = Field(
        description="Slurm's pending reason, or one of NoStandby, StandbyVanished, "
        "LinkUnknown, Maintenance.",
        examples=["ReqNodeNotAvail"],
    )
    says: str = Field(examples=["link 3 (job 4720) waits: its nodes are down"])
    advice: str = Field(
        description="What the chain's owner can do about it.",
        examples=["Wait for the nodes, or ..."],
    )


class ChainSummary(WireModel):
    chain_id: str = Field(examples=[_CHAIN_ID])
    user: str = Field(examples=["alice"])
    uid: int = Field(examples=[1000])
    state: ChainState
    note: str = Field(
        description="Why the chain is in this state or at risk, in words for people.", examples=[""]
    )
    actor: Actor | None = Field(
        description="Who brought the chain into this state; null: nobody did.", examples=[None]
    )
    reason: Reason | None = Field(
        description="Why the chain is in this state, as one word.", examples=[None]
    )
    links_planned: int | None = Field(
        description="The planned number of links; null: the chain was found in Slurm and was "
        "never registered.",
        examples=[8],
    )
    links_started: int = Field(examples=[3])
    running: list[int] = Field(description="The jobs of the chain that run now.", examples=[[4711]])
    policy: str | None = Field(
        description="The policy of the chain; null: the default policy of the service.",
        examples=[None],
    )
    overlap_price: float = Field(
        description="Hours of interruption that an hour of overlap costs.", examples=[0.5]
    )
    overlap_price_why: str = Field(
        description="Where the price comes from, in words for people.",
        examples=["the default: nodes of two links are held"],
    )
    total_s: int | None = Field(
        description="The chain ends when its links together have run this long; null: its number "
        "of links decides.",
        examples=[None],
    )
    max_overlap_s: int = Field(
        description="How early the next link may start; 0: links never overlap. If the user gave "
        "none: four hours or a quarter of the newest link's time limit, whichever is smaller; for "
        "style switch, the whole time limit; 0 for a chain that was never registered.",
        examples=[14400],
    )
    presubmit: Presubmit = Field(examples=["next"])
    style: Style | None = Field(
        description="The style of the chain; null: concurrent, for a chain older than style "
        "sequential.",
        examples=["sequential"],
    )
    mode: ChainMode = Field(examples=["standby"])
    service_mode: Mode = Field(
        description="How far Mirage goes for this chain now: the mode of its partition, else of "
        "the cluster; shadow in place of act while the kill switch is pulled.",
        examples=["act"],
    )
    at_risk: AtRisk | None = Field(
        description="Why the next link may start late; null: the chain is not at risk.",
        examples=[None],
    )
    created_at: datetime = Field(examples=[_NOON])
    handovers_done: int = Field(description="The number of complete hand-overs.", examples=[2])
    interruption_h: float = Field(
        description="The total interruption of all complete hand-overs.", examples=[0.25]
    )
    overlap_h: float = Field(examples=[1.5])
    returns: int = Field(
        description="How often links of the chain gave their nodes back.", examples=[0]
    )


class LinkView(WireModel):
    index: int = Field(
        description="The number of the link in the chain; the first job is 1.", examples=[3]
    )
    job_id: int = Field(examples=[4711])
    state: LinkState
    position: Position = Field(description="The link's position in the queue as a standby.")
    partition: str = Field(examples=["gpu"])
    account: str = Field(examples=["physics"])
    nodes: int = Field(examples=[4])
    time_limit_s: int | None = Field(
        description="The time limit; null: unlimited or not known.", examples=[172800]
    )
    unlimited: bool = Field(description="Whether the job has no time limit.", examples=[False])
    submit: datetime = Field(examples=[_NOON])
    eligible: datetime | None = Field(examples=[_NOON])
    freed_at: datetime | None = Field(
        description="When Mirage, or a planned release in Slurm, made the link eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Who released the link or planned its release; null: nothing has made it "
        "eligible.",
        examples=["service"],
    )
    planned_release: datetime | None = Field(
        description="When the dependency in Slurm makes the link eligible without a further move; "
        "null: when its predecessor ends, or something else holds the link (`reason`).",
        examples=[_NOON],
    )
    planned_by: Planner | None = Field(
        description="Who planned the release; `user` with a null `planned_release`: a user "
        "removed the plan by hand.",
        examples=["service"],
    )
    start: datetime | None = Field(examples=[_NOON])
    end: datetime | None = Field(examples=[None])
    end_state: JobState | None = Field(examples=[None])
    reason: str = Field(
        description="Why the job waits, as Slurm's pending reason.", examples=["Priority"]
    )
    hindered: str = Field(
        description="A cause of the wait that no forecast could know; empty: there is none.",
        examples=[""],
    )
    returns: int = Field(
        description="How many jobs of the link gave their nodes back, since the link before it ran "
        "for long yet; another job of the link took their place.",
        examples=[0],
    )
    returned_node_h: float = Field(
        description="The node-hours that these jobs held; they count as overlap.", examples=[0.0]
    )
    planned_start: datetime | None = Field(
        description="The start that Slurm plans for the waiting link; null: Slurm plans none, for "
        "example for a held job.",
        examples=[None],
    )
    waits_for: int | None = Field(
        description="The link runs, but its script waits until this other link has ended; null: "
        "it does not wait.",
        examples=[None],
    )


class HandoverView(WireModel):
    link: int = Field(description="The index of the successor in the chain.", examples=[2])
    predecessor_end: datetime = Field(examples=[_NOON])
    successor_start: datetime = Field(examples=[_NOON])
    interruption_h: float = Field(examples=[0.0])
    overlap_h: float = Field(
        description="With the time for which the successor held nodes that it gave back.",
        examples=[0.75],
    )
    cost_h: float = Field(
        description="interruption_h + overlap_price * overlap_h", examples=[0.375]
    )


class ExpectedStartView(WireModel):
    """When the script of the next link is expected to begin, with the planned release in it."""

    link: int = Field(examples=[4])
    at: datetime = Field(description="The median.", examples=[_NOON])
    earliest: datetime = Field(
        description="8 of 10 starts lie between `earliest` and `latest`.", examples=[_NOON]
    )
    latest: datetime = Field(examples=["2026-03-02T14:30:00Z"])


class ChainView(ChainSummary, Answer):
    max_returns: int = Field(
        description="How often an early link of the chain may give its nodes back: what its user "
        "asked for, and no more than the admins allow; 0: never.",
        examples=[2],
    )
    links: list[LinkView]
    handovers: list[HandoverView] = Field(description="The complete hand-overs, oldest first.")
    expected_start: ExpectedStartView | None = Field(
        description="When the next link is expected to start; null: nothing foretells it."
    )


class ReturnCostsView(WireModel):
    """What a new release is expected to cost a link that has started early and gives its nodes
    back. The three lists have the same length; between two points the cost is interpolated."""

    chain_id: str = Field(examples=[_CHAIN_ID])
    link: int = Field(description="The link that asks.", examples=[3])
    made_at: datetime = Field(
        description="When the forecast was in force; it is 20 minutes old at most.",
        examples=[_NOON],
    )
    price: float = Field(description="The overlap price of the costs.", examples=[0.5])
    left_s: list[int] = Field(
        description="How long before the predecessor's end the nodes are given back, ascending.",
        examples=[[0, 1800, 3600]],
    )
    cost_s: list[int] = Field(
        description="The expected cost of the best new release from then on, in seconds of "
        "interruption, without what giving back costs.",
        examples=[[1500, 600, 400]],
    )
    lead_s: list[int] = Field(
        description="How long before the predecessor's end that release is.",
        examples=[[0, 1800, 2400]],
    )


class NextLinkView(WireModel):
    """The instruction to a running link about the next link."""

    submit_now: bool = Field(
        description="Whether to submit the next link now, eligible at once; only for a chain of "
        "mode submit.",
        examples=[False],
    )
    ask_again_s: int = Field(description="How long to wait before asking again.", examples=[300])
    mode: Mode | None = Field(
        default=None,
        description="The service's mode for the link's partition; absent for a chain of mode "
        "submit.",
        examples=["act"],
    )
    lead_s: int | None = Field(
        default=None,
        description="How long before the asking link's time limit the next link is to be "
        "released; null: plan no release.",
        examples=[7200],
    )
    policy: str | None = Field(
        default=None,
        description="The rule that decided so. `quantile` stands in for a policy that takes longer "
        "than a link waits; the service moves the plan where that policy decides otherwise. Null: "
        "no rule was asked.",
        examples=["quantile"],
    )
    max_returns: int | None = Field(
        default=None,
        description="The most times that the admins let a link give its nodes back, whatever its "
        "chain asks for; absent: they set no bound.",
        examples=[1],
    )
    return_costs: ReturnCostsView | None = Field(
        default=None,
        description="What the asking link may decide by, where it has started early, whether it "
        "keeps its nodes; absent where the service knows nothing of now. Mode act and style "
        "sequential only.",
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
    samples: int = Field(
        description="The number of waits that the forecast was made from.", examples=[200]
    )


class DecisionView(WireModel):
    id: int = Field(examples=[17])
    at: datetime = Field(examples=[_NOON])
    last_at: datetime = Field(
        description="When the same decision was last repeated.", examples=[_NOON]
    )
    repeats: int = Field(examples=[59])
    chain_id: str = Field(examples=[_CHAIN_ID])
    link: int = Field(
        validation_alias="index",
        description="The index of the standby in the chain.",
        examples=[3],
    )
    mode: Mode
    policy: str = Field(examples=["quantile"])
    action: Action
    reason: str = Field(examples=["95 min remain, no more than the lead of 96 min"])
    time_left_s: int | None = Field(
        description="The time left until the planned end of the predecessor.", examples=[5700]
    )
    forecast: ForecastView | None
    release_at: datetime | None = Field(
        description="When the policy expects to release the standby, or when Slurm will under a "
        "planned release; null: not known.",
        examples=[_NOON],
    )
    effect: Effect
    error: str = Field(
        description="Slurm's error message if Slurm refused the move; otherwise empty.",
        examples=[""],
    )
    inputs: dict[str, Any] = Field(examples=[{"predecessor": 4711, "standby": 4720}])

    @computed_field(  # type: ignore[prop-decorator]  # pydantic's own way, which mypy does not know
        description="What Mirage did, or would do, in words for people that follow the policy's "
        "name.",
        examples=["made the next link eligible"],
    )
    @property
    def says(self) -> str:
        return describe_decision(self)


class DecisionPage(Page):
    items: list[DecisionView]


def to_finite_limit(seconds: int | None) -> int | None:
    return None if seconds == UNLIMITED else seconds


class JobView(WireModel):
    job_id: int = Field(examples=[4711])
    name: str = Field(examples=["train"])
    user: str = Field(examples=["alice"])
    account: str = Field(examples=["physics"])
    partition: str = Field(examples=["gpu"])
    qos: str = Field(examples=["normal"])
    state: JobState
    reason: str = Field(
        description="Why the job waits, as Slurm's pending reason.", examples=["Priority"]
    )
    nodes: int = Field(examples=[4])
    gpus: Annotated[int, BeforeValidator(lambda gpus: gpus or 0)] = Field(
        description="Its GPUs on all nodes; 0 also where `gpus_known` is false.", examples=[16]
    )
    gpus_known: Annotated[bool, BeforeValidator(lambda gpus: gpus is not None)] = Field(
        validation_alias=AliasPath("gpus"),  # a path: the plugin of mypy takes a plain alias once
        description="Whether the number of its GPUs could be read.",
        examples=[True],
    )
    time_limit_s: Annotated[int | None, BeforeValidator(to_finite_limit)] = Field(
        description="The time limit; null: unlimited or not known.", examples=[172800]
    )
    unlimited: Annotated[bool, BeforeValidator(lambda limit: limit == UNLIMITED)] = Field(
        validation_alias=AliasPath("time_limit_s"),
        description="Whether the job has no time limit.",
        examples=[False],
    )
    submit: datetime = Field(examples=[_NOON])
    eligible: datetime | None = Field(examples=[_NOON])
    start: datetime | None = Field(
        description="When the job began to run; null: it has not begun.", examples=[_NOON]
    )
    end: datetime | None = Field(
        description="When the job ended, whether it had run or not; null: it has not ended.",
        examples=[None],
    )
    planned_start: datetime | None = Field(
        description="The start that Slurm plans for the job while it waits; null: Slurm plans "
        "none.",
        examples=[None],
    )
    cancelled_at: datetime | None = Field(
        description="When the job was cancelled before it ran; null: it was not.", examples=[None]
    )
    wait_s: int | None = Field(
        description="The wait from when the job was submitted and eligible until it started; "
        "null: it has not started.",
        examples=[1800],
    )


class JobPage(Page):
    items: list[JobView]


class Health(WireModel):
    status: Literal["ok"] = "ok"


class Readiness(Health):
    detail: str | None = Field(
        None,
        description="What the service cannot do yet, although it is ready; left out if it can do "
        "everything.",
        examples=["the simulator is being compiled: until then rules decide"],
    )
