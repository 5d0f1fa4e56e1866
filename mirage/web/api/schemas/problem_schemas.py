"""Wire types that no route names as its answer: problems, and the events of the stream."""

from typing import Literal

from pydantic import Field

from mirage.web.api.schemas.wire_model import WireModel


class LiveEvent(WireModel):
    """One event of the stream, as server-sent events have it."""

    id: str = Field(
        description="The event's number. A client that resumes sends it as Last-Event-ID.",
        examples=["4711"],
    )
    event: Literal["chains", "decisions", "queue", "mode", "health", "reset"] = Field(
        description="What changed; reset: events were lost, read everything again.",
        examples=["chains"],
    )
    data: str = Field(
        description="JSON with `topic`, and `chain_ids` (null: many chains) or `status`.",
        examples=['{"id": 4711, "topic": "chains", "chain_ids": ["k3v9x2m7q1zt"]}'],
    )


class FaultView(WireModel):
    detail: str = Field(examples=["Input should be greater than or equal to 1"])
    pointer: str | None = Field(
        None, description="The faulty field, as a JSON pointer into the body.", examples=["#/links"]
    )
    parameter: str | None = Field(
        None,
        description="The faulty parameter of the path, the query or the headers.",
        examples=["limit"],
    )


class Problem(WireModel):
    """A problem as RFC 9457 defines it."""

    type: str = Field(
        description="The address at which the problem is explained.",
        examples=["/problems/not-found"],
    )
    title: str = Field(examples=["There is no such thing"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no chain k3v9x2m7q1zt"])
    instance: str = Field(examples=["/api/v1/chains/k3v9x2m7q1zt"])
    request_id: str = Field(examples=["6f1c0c7a9d0e4b51"])
    errors: list[FaultView] | None = Field(
        None, examples=[[{"detail": "Field required", "pointer": "#/links"}]]
    )
