"""Wire types of a registration of a chain. Durations are seconds (`_s`)."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from mirage.domain.chain import MAX_LINKS, MAX_RETURNS, ChainMode, Presubmit, Style
from mirage.web.api.schemas.wire_model import RequestBody

_CHAIN_ID = "k3v9x2m7q1zt"
_TEN_YEARS_S = 3650 * 86400
_LARGEST = 2**63 - 1
"""The largest integer that a column of the database holds."""

ChainIdText = Annotated[str, Field(pattern=r"^[a-z0-9]{8,32}$", examples=[_CHAIN_ID])]


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
    job_id: int = Field(gt=0, le=_LARGEST, description="The job of the first link.")
    links: int = Field(ge=1, le=MAX_LINKS)
    policy: str | None = Field(
        None,
        max_length=80,
        description="The policy of the chain. Default: the policy of the service.",
    )
    overlap_price: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Hours of interruption that an hour of overlap is worth. Default: 0.5; for "
        "style switch: (start-up + expected interruption) / time limit, from 0.01 to 0.1.",
    )
    total_s: int | None = Field(
        None,
        ge=1,
        le=_TEN_YEARS_S,
        description="The chain ends when its links together have run this long.",
    )
    max_overlap_s: int | None = Field(
        None,
        ge=0,
        le=_TEN_YEARS_S,
        description="How early a link may start before its predecessor ends; 0: never. Default: "
        "four hours or a quarter of the predecessor's time limit, whichever is smaller; for style "
        "switch, the whole time limit.",
    )
    presubmit: Presubmit | None = Field(
        None, description="Which links are submitted in advance. Default: next."
    )
    style: Style | None = Field(
        None,
        description="What a link does that starts before its predecessor ends. Default, also for "
        "null: concurrent, as an older wrapped sbatch expects.",
    )
    mode: ChainMode | None = Field(
        None, description="Whether a successor stands in the queue. Default: standby."
    )
    min_runtime_s: int | None = Field(
        None,
        ge=0,
        le=_TEN_YEARS_S,
        description="A link that fails after less than this time has failed fast. Default: ten "
        "minutes.",
    )
    max_returns: int | None = Field(
        None,
        ge=0,
        le=MAX_RETURNS,
        description="How often a link of style sequential may give its nodes back where it starts "
        "early. Default: never, as links of older plugins.",
    )
    recipe: dict[str, Any] | None = Field(
        None,
        deprecated=True,
        description="Ignored. Plugins of earlier releases send it for chains of mode submit.",
    )
