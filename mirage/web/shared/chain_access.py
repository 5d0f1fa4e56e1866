"""Says which chains a caller sees and may change, and which waits and bounds of partitions a reader
sees."""

from collections.abc import Callable
from typing import Annotated, Protocol

from fastapi import Depends, Path

from mirage.chains import lifecycle
from mirage.database.chains import chains
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, NODES, PARTITIONS, USAGE, Principal
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.errors import NotAllowed
from mirage.provision.forecasts.submission_forecast import PartitionBounds
from mirage.reports import wait_statistics
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import Context, Writer, Writing, require_identity
from mirage.web.shared.idempotent_requests import Idempotency
from mirage.web.shared.problems import NOT_FOUND, ProblemError

ChainPath = Annotated[str, Path(pattern=r"^[a-z0-9]{8,32}$", examples=["k3v9x2m7q1zt"])]


def get_visible_chain(
    tx: Transaction, cluster_id: int, chain_id: ChainId, reader: Principal
) -> Chain:
    """Return the chain. Raises a problem "not found" also for a chain that the caller may not see.

    Raises NotIdentified if the cluster keeps jobs or usage private and the caller is unknown.
    """
    # Before the look-up, whose outcome would tell whether the chain exists.
    require_identity(reader, JOBS, USAGE)
    chain = chains.get_chain(tx, cluster_id, chain_id)
    if not reader.can_see_chain(chain, chains.list_links(tx, cluster_id, chain_id)):
        hidden = NotAllowed(f"chain {chain_id} is hidden from {reader.user}")
        raise ProblemError(NOT_FOUND, f"there is no chain {chain_id}", refusal=hidden)
    return chain


Check = Callable[[Chain], None]


def _check_nothing(_chain: Chain) -> None: ...


class AskForState(Protocol):
    """`check` may refuse the request of this caller's own chain, unless it is a repeat."""

    def __call__(self, target: ChainState, check: Check = ...) -> Chain: ...


def _prepare_state_request(
    chain_id: ChainPath, context: Context, writer: Writer, tx: Writing, key: Idempotency
) -> AskForState:
    """Return a function that writes down a caller's request for a state of their chain.

    The worker tells Slurm about the request at its next tick.
    """

    def request_state(target: ChainState, check: Check = _check_nothing) -> Chain:
        return key.run_once(lambda: write_request(target, check), get_own_chain)

    def write_request(target: ChainState, check: Check) -> Chain:
        chain = get_own_chain()
        check(chain)
        lifecycle.request_state(
            tx, context.cluster_id, chain, target, now=context.clock(), actor=writer.user
        )
        return chain

    def get_own_chain() -> Chain:
        chain = get_visible_chain(tx, context.cluster_id, ChainId(chain_id), writer)
        if not writer.can_steer(chain, chains.list_links(tx, context.cluster_id, chain.chain_id)):
            raise NotAllowed(f"chain {chain_id} is not {writer.user}'s")
        return chain

    return request_state


StateRequest = Annotated[AskForState, Depends(_prepare_state_request)]
"""Requests a state of the caller's own chain, and returns the chain as it was before."""


def get_minimum_jobs(reader: Principal) -> int:
    """Return from how many jobs on this reader may see waits."""
    return 1 if reader.can_see(JOBS) else wait_statistics.LEAST


def get_visible_bounds(context: ApiContext, reader: Principal, partition: str) -> PartitionBounds:
    """Return the facts about the partition that a refusal may show to this reader."""
    max_time_s = context.max_time_s.get(partition, 0) if reader.can_see(PARTITIONS) else 0
    return PartitionBounds(sees_nodes=reader.can_see(NODES), max_time_s=max_time_s)
