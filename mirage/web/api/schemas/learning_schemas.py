"""Wire types of what the site has learned."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.provision.learning.model_promoter import PromotionMode
from mirage.web.api.schemas.wire_model import RequestBody, WireModel

_NIGHT = "2026-03-02T02:10:00Z"
_MODEL = "models/site-lab/20260302"
_FIGURES = [{"quantile": {"interruption_h": 1.2, "overlap_h": 0.4}}]

ModelName = Annotated[
    str,
    Field(
        pattern=r"^models/[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*$",
        max_length=160,
        examples=[_MODEL],
    ),
]


class DifferenceView(WireModel):
    """The cost of the model less that of another policy, on the same hand-overs."""

    against: str = Field(examples=["quantile"])
    difference_h: float = Field(
        description="The mean difference a hand-over in hours; each owner weighs at most one.",
        examples=[-0.3],
    )
    difference_h_ci: tuple[float | None, float | None] = Field(
        description="The interval that has to lie below zero; null: too few days.",
        examples=[[-0.5, -0.1]],
    )
    handovers: int = Field(examples=[480])
    owners: int = Field(examples=[12])
    days: int = Field(examples=[14])


class ChallengeView(WireModel):
    """A model that decided in shadow beside the champion, and what became of it."""

    id: int = Field(examples=[3])
    model: str = Field(examples=[_MODEL])
    champion: str | None = Field(
        description="The model in use when it began; null: none of this site's.", examples=[None]
    )
    state: ChallengeState = Field(examples=["proposed"])
    proposed_at: datetime = Field(description="Since when it decides in shadow.", examples=[_NIGHT])
    judged_at: datetime | None = Field(
        description="When it came into its state; null: it decides in shadow.", examples=[_NIGHT]
    )
    decided_by: str = Field(
        description="`mirage`, or an admin; empty: nobody yet.", examples=["mirage"]
    )
    judgements: int = Field(description="How often it was judged.", examples=[1])
    why: str = Field(description="What speaks for its state, in words.", examples=[""])
    cost_h: dict[str, float] = Field(
        description="The mean cost a hand-over, by policy, in hours.",
        examples=[{"challenger": 0.8, "quantile": 1.1}],
    )
    against: list[DifferenceView]


class ChampionView(WireModel):
    """The model of this site that is in use."""

    model: str = Field(examples=[_MODEL])
    family: str = Field(examples=["xgboost"])
    promoted_at: datetime | None = Field(examples=[_NIGHT])
    why: str = Field(description="Why it was promoted, in words.", examples=[""])
    previous: str | None = Field(
        description="The model that comes back if it is taken back; null: rules and twin decide.",
        examples=[None],
    )
    not_asked: str = Field(
        description="Why it decides nothing, and what to do, in words; empty: it decides.",
        examples=[""],
    )


class RunView(WireModel):
    """A run of learning."""

    id: int = Field(examples=[41])
    begun_at: datetime = Field(examples=[_NIGHT])
    ended_at: datetime | None = Field(description="Null: it goes on.", examples=[_NIGHT])
    took_s: int | None = Field(examples=[2400])
    state: RunState = Field(examples=["done"])
    reason: str = Field(description="Why there was something to learn.", examples=["no model"])
    outcome: str = Field(description="What came of it, in words.", examples=["it ended"])
    document: dict[str, Any] = Field(
        description="What it learned on and what it found.", examples=[{"figures": {}}]
    )


class Learning(WireModel):
    promote: PromotionMode = Field(
        description="Who promotes a model that was cheaper: `ask`: an admin; `auto`: Mirage; "
        "`never`: nobody.",
        examples=["ask"],
    )
    champion: ChampionView | None = Field(
        description="The model of this site that is in use; null: there is none."
    )
    challenger: ChallengeView | None = Field(
        description="The model that decides in shadow or waits for an admin; null: there is none."
    )
    figures: dict[str, dict[str, Any]] = Field(
        description="Mean interruption and overlap a hand-over on this cluster, by policy, of the "
        "newest run that has any.",
        examples=_FIGURES,
    )
    challenges: list[ChallengeView] = Field(description="The newest 20, newest first.")
    runs: list[RunView] = Field(description="The newest 20, newest first.")


class ChallengerDecision(RequestBody):
    """What an admin decides about the challenger."""

    model: ModelName
    state: Literal["promoted", "declined"] = Field(examples=["promoted"])


class ChampionDecision(RequestBody):
    """An admin takes the model in use back."""

    model: ModelName
    state: Literal["rolled-back"] = Field(examples=["rolled-back"])
