"""Wire types of the list of hand-overs."""

from datetime import datetime

from pydantic import Field

from mirage.api.schemas.chain_schemas import HandoverView, Page
from mirage.domain.chain import Planner, Position

_NOON = "2026-03-02T12:00:00Z"


class HandoverItem(HandoverView):
    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    user: str = Field(examples=["alice"])
    account: str = Field(examples=["physics"])
    partition: str = Field(description="The successor's, as are nodes.", examples=["gpu"])
    nodes: int = Field(examples=[4])
    predecessor: int = Field(description="Its job.", examples=[4711])
    successor: int = Field(description="Its job.", examples=[4720])
    position: Position = Field(description="Where the successor stood as a standby.")
    freed_at: datetime | None = Field(
        description="When Mirage, or a plan that stood in Slurm, made it eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Whose move or plan that was; null: nothing made it eligible.",
        examples=["service"],
    )
    hindered: str = Field(
        description="What of its wait no forecast could know; empty: nothing.", examples=[""]
    )


class HandoverPage(Page):
    items: list[HandoverItem]
