"""Routes that programs call: a running link asks what to do, and slurmctld reports ended jobs."""

import ipaddress
import socket
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Query, Request

from mirage.chains import submit_instruction
from mirage.database.chains import push_times
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import MAX_LINKS, MAX_RETURNS, Chain, ChainId, ChainMode
from mirage.domain.job import JobId
from mirage.errors import NotAllowed
from mirage.provision.control import limit_overrides
from mirage.provision.next_release import plan_next_release
from mirage.provision.return_costs import KeptCosts, find_kept_costs
from mirage.web.api.openapi import describe_write_errors
from mirage.web.api.schemas import chain_schemas
from mirage.web.shared.chain_access import ChainPath, get_visible_chain
from mirage.web.shared.dependencies import Context, Identified, Reading, Writer, Writing, to_instant
from mirage.web.shared.idempotent_requests import Idempotency

router = APIRouter(tags=["machines"])

NOTE_INTERVAL_S = 600
"""A call from a node is written down only if the last one written is this many seconds old."""


@router.get(
    "/chains/{chain_id}/next",
    operation_id="getNextLink",
    responses=describe_write_errors(404),
    response_model_exclude_unset=True,
)
def get_next_link(
    *,
    chain_id: ChainPath,
    request: Request,
    background: BackgroundTasks,
    context: Context,
    principal: Identified,
    tx: Reading,
    link: Annotated[
        int | None, Query(gt=0, le=MAX_LINKS, description="The number of the link that asks.")
    ] = None,
) -> chain_schemas.NextLinkView:
    """Tell a running link what to do about the next link. Only the chain's owner may ask.

    In a chain of mode submit, the answer says whether to submit the next link now. In a chain
    with standbys, it gives the lead to plan. A link that has started early hears as well what it
    would cost to give its nodes back.
    """
    chain = get_visible_chain(tx, context.cluster_id, ChainId(chain_id), principal)
    if chain.uid != principal.uid:
        raise NotAllowed(f"chain {chain_id} is not {principal.user}'s")
    now = context.clock()
    if _is_from_another_host(request, context.proxy_uids):
        noted_at = clusters.read_node_asked_at(tx, context.cluster_id)
        if noted_at is None or now - noted_at >= NOTE_INTERVAL_S:
            # After the answer: this request holds a transaction, and must not wait for a second.
            background.add_task(_note_node, context.store, context.cluster_id, now)
    if chain.mode is not ChainMode.SUBMIT:
        limits = limit_overrides.read_effective_limits(tx, context.cluster_id, context.limits)
        plan = plan_next_release(
            tx,
            context.cluster_id,
            chain,
            index=link,
            default=context.policy,
            limits=limits,
            now=now,
            tick_s=context.queue_interval_s,
            partial=context.partial(),
        )
        view = chain_schemas.NextLinkView(
            submit_now=False,
            ask_again_s=plan.ask_again_s,
            mode=plan.mode,
            lead_s=plan.lead_s,
            policy=plan.policy,
        )
        if limits.max_returns < MAX_RETURNS:
            view = view.model_copy(update={"max_returns": limits.max_returns})
        costs = None
        if link is not None and limits.max_returns:
            costs = find_kept_costs(
                tx, context.cluster_id, chain, index=link, mode=plan.mode, now=now
            )
        if costs is None:
            return view
        return view.model_copy(update={"return_costs": _serialize_costs(chain, costs)})
    answer = submit_instruction.get_submit_instruction(
        tx, context.cluster_id, chain, now, context.queue_interval_s
    )
    return chain_schemas.NextLinkView(submit_now=answer.submit_now, ask_again_s=answer.ask_again_s)


def _serialize_costs(chain: Chain, costs: KeptCosts) -> chain_schemas.ReturnCostsView:
    return chain_schemas.ReturnCostsView(
        chain_id=chain.chain_id,
        link=costs.index,
        made_at=to_instant(costs.made_at),
        price=costs.price,
        left_s=list(costs.table.left_s),
        cost_s=list(costs.table.cost_s),
        lead_s=list(costs.table.lead_s),
    )


def _is_from_another_host(request: Request, proxy_uids: frozenset[int]) -> bool:
    """Return whether the caller is on another host.

    A caller at the unix socket is on this host, unless a proxy passes on another host's address.
    So is a caller whose address is the one it called.
    """
    if getattr(request.state, "peer_uid", None) in proxy_uids:
        forwarded = request.headers.get("x-forwarded-for", "")
        return _is_address_elsewhere(forwarded.rpartition(",")[2].strip())
    server = request.scope.get("server")
    return request.client is not None and server is not None and request.client.host != server[0]


def _is_address_elsewhere(text: str) -> bool:
    """Return whether this is the address of another host: no socket here can have it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.is_loopback:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))
    except OSError:
        return True
    return False


def _note_node(store: Store, cluster_id: int, now: int) -> None:
    with store.begin() as tx:
        clusters.set_node_asked_at(tx, cluster_id, now)


@router.post(
    "/completions",
    operation_id="reportCompletion",
    status_code=202,
    responses=describe_write_errors(409, 412),
)
def report_completion(
    completion: chain_schemas.CompletionEvent,
    context: Context,
    writer: Writer,
    tx: Writing,
    key: Idempotency,
) -> chain_schemas.CompletionView:
    """Report that a job has ended.

    slurmctld calls this (slurm_plugin/hooks/mirage-push). Mirage then polls the queue less often.
    """
    if writer.user not in context.pushers:
        raise NotAllowed(
            f"{writer.user} may not report ended jobs: polling.pushers does not name this user"
        )
    job_id, now = JobId(completion.job_id), context.clock()
    return key.run_once(
        lambda: chain_schemas.CompletionView(
            looks=push_times.record_push(tx, context.cluster_id, job_id, now)
        ),
        lambda: chain_schemas.CompletionView(
            looks=push_times.is_open_link(tx, context.cluster_id, job_id)
        ),
    )
