"""Wire types of the list of hand-overs."""

from datetime import datetime

from pydantic import Field

from mirage.domain.chain import Planner, Position
from mirage.web.api.schemas.chain_schemas import HandoverView, Page

_NOON = "2026-03-02T12:00:00Z"


class HandoverItem(HandoverView):
    chain_id: str = Field(examples=["k3v9x2m7q1zt"])
    user: str = Field(examples=["alice"])
    account: str = Field(examples=["physics"])
    partition: str = Field(description="The partition of the successor.", examples=["gpu"])
    nodes: int = Field(examples=[4])
    predecessor: int = Field(description="The job of the predecessor.", examples=[4711])
    successor: int = Field(description="The job of the successor.", examples=[4720])
    position: Position = Field(description="The successor's position in the queue as a standby.")
    freed_at: datetime | None = Field(
        description="When Mirage, or a planned release in Slurm, made the link eligible.",
        examples=[_NOON],
    )
    freed_by: Planner | None = Field(
        description="Who released the link or planned its release; null: nothing has made it "
        "eligible.",
        examples=["service"],
    )
    hindered: str = Field(
        description="A cause of the wait that no forecast could know; empty: there is none.",
        examples=[""],
    )


class HandoverPage(Page):
    items: list[HandoverItem]
