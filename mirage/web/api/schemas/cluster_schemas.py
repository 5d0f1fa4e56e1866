"""Wire types of the cluster, its modes and the audit."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from mirage.domain.decision import Mode
from mirage.web.api.schemas.chain_schemas import Answer, Page
from mirage.web.api.schemas.wire_model import RequestBody, WireModel

_NOON = "2026-03-02T12:00:00Z"
_CHAIN_ID = "k3v9x2m7q1zt"


class Modes(WireModel):
    mode: Mode = Field(description="The mode of the cluster.")
    partitions: dict[str, Mode] = Field(
        description="The modes of partitions that have a mode of their own.",
        examples=[{"gpu": "act"}],
    )
    demoted: list[str] = Field(
        description="Sentences on chains that are in shadow where the mode is act, since forecasts "
        "for them were too wrong: the caller's own chains, to an admin all."
    )
    says: str = Field(
        description="All modes in words; partitions that the caller may not see are counted.",
        examples=["act in gpu, else shadow"],
    )
    kill_switch: bool = Field(
        description="Whether the kill switch is pulled: then no mode is act.", examples=[False]
    )


class ClusterSums(WireModel):
    """Sums over the cluster; null: not known."""

    pending_jobs: int | None = Field(None, examples=[212])
    pending_nodes: int | None = Field(None, examples=[1040])
    running_jobs: int | None = Field(None, examples=[96])
    running_nodes: int | None = Field(None, examples=[88])
    nodes: int | None = Field(None, examples=[90])
    usable_nodes: int | None = Field(None, examples=[88])
    idle_nodes: int | None = Field(None, examples=[0])
    gpus: int | None = Field(None, examples=[352])
    gpus_used: int | None = Field(None, examples=[350])


class ClusterView(Answer):
    name: str = Field(examples=["lab"])
    mode: Mode
    partitions: dict[str, Mode] = Field(
        description="The modes of partitions that have a mode of their own.",
        examples=[{"gpu": "act"}],
    )
    policies: list[str] = Field(examples=[["reactive", "quantile"]])
    partial: bool = Field(
        False,
        description="Whether Slurm hides other users' jobs from this service.",
        examples=[False],
    )
    sums: ClusterSums


class NewMode(RequestBody):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"mode": "act", "partition": "gpu"}]},
    )

    mode: Mode | None = Field(
        description="The new mode; null: the partition has no mode of its own any more."
    )
    partition: str = Field(
        "", max_length=64, description="The partition; empty: the whole cluster."
    )


class AuditView(WireModel):
    id: int = Field(examples=[99])
    at: datetime = Field(examples=[_NOON])
    actor: str = Field(examples=["mirage"])
    event: str = Field(examples=["free: done"])
    chain_id: str | None = Field(examples=[_CHAIN_ID])
    job_id: int | None = Field(examples=[4720])
    detail: dict[str, Any] = Field(examples=[{"link": 3}])


class AuditPage(Page):
    items: list[AuditView]
