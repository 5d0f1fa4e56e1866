"""The builders of a chain and of its links."""

from typing import Any

from mirage.domain.chain import Chain, ChainId, Link
from mirage.domain.job import JobId

CHAIN = "abcdefgh"


def make_chain(chain_id: str = CHAIN, **fields: Any) -> Chain:
    """It is of uid 1, goes on, and nobody has said anything of it, but for what `fields` say."""
    return Chain(chain_id=ChainId(chain_id), **{"uid": 1, **fields})


def make_link(chain_id: str = CHAIN, index: int = 1, job_id: int = 1, **fields: Any) -> Link:
    """It was submitted at 0 and waits, but for what `fields` say."""
    identity = {"chain_id": ChainId(chain_id), "index": index, "job_id": JobId(job_id)}
    return Link(**{**identity, "submit": 0, **fields})
