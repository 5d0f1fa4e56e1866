"""Routes about chains: register, show, pause, resume, cancel, and list decisions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from mirage.chains import chain_quota
from mirage.chains import lifecycle as chain_service
from mirage.chains.expected_start import read_expected_start
from mirage.chains.lifecycle import Registration
from mirage.database.chains import chains, decisions
from mirage.database.chains.chains import ChainFilter
from mirage.database.chains.decisions import DecisionFilter, DecisionRow, Effect
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, NOBODY_UID, USAGE, OwnRows, Principal
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.domain.decision import Action, Mode
from mirage.domain.job import JobId
from mirage.errors import InputError, NotAllowed, NotFound
from mirage.policies.registry import is_model
from mirage.provision.control import limit_overrides
from mirage.web.api import serializers
from mirage.web.api.openapi import describe_read_errors, describe_write_errors
from mirage.web.api.schemas import chain_schemas, registration_schemas
from mirage.web.api.streaming import file_export
from mirage.web.api.streaming.file_export import EXPORTED, AsFormat, Format
from mirage.web.shared.chain_access import ChainPath, StateRequest, get_visible_chain
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import (
    Context,
    Reader,
    Reading,
    Writer,
    Writing,
    read_freshness,
    require_identity,
)
from mirage.web.shared.idempotent_requests import Idempotency
from mirage.web.shared.if_match import IfMatch
from mirage.web.shared.paging import NO_SUCH_CURSOR, PageRequest, Paging, TimeRangeQuery
from mirage.web.shared.problems import ProblemError, build_invalid_error

router = APIRouter(tags=["chains"])


@router.get(
    "/chains",
    operation_id="listChains",
    response_model=chain_schemas.ChainPage,
    responses=describe_read_errors(429) | EXPORTED,
)
def list_chains(
    *,
    answer_format: AsFormat,
    paging: Paging,
    reader: Reader,
    time_range: TimeRangeQuery,
    user: Annotated[
        str | None, Query(max_length=64, description="Only chains of this user.")
    ] = None,
    state: Annotated[ChainState | None, Query(description="Only chains in this state.")] = None,
    partition: Annotated[
        str, Query(max_length=64, description="Only chains with a link in this partition.")
    ] = "",
    account: Annotated[
        str, Query(max_length=64, description="Only chains with a link of this account.")
    ] = "",
    at_risk: Annotated[
        bool | None, Query(description="true: only chains at risk; false: only chains not at risk.")
    ] = None,
) -> chain_schemas.ChainPage | Response:
    "List the chains, newest first; where the cluster keeps jobs private, only the caller's own."
    require_identity(reader, JOBS, USAGE)
    cluster_id = paging.context.cluster_id
    begin = None if paging.cursor is None else _resolve_cursor(paging, reader, paging.cursor)
    own_rows = None if reader.can_see_all_chains else reader.build_own_rows()
    where = ChainFilter(
        partition=partition,
        account=account,
        at_risk=at_risk,
        since=time_range.since,
        until=time_range.until,
    )

    def read_page(tx: Transaction, last: Chain | None, limit: int) -> list[Chain]:
        after = begin if last is None else last.chain_id
        return chains.list_chains(
            tx,
            cluster_id,
            user=user,
            state=state,
            own=own_rows,
            where=where,
            after=after,
            limit=limit,
        )

    if answer_format is not Format.JSON:
        return file_export.export_rows(
            paging.request,
            answer_format,
            chain_schemas.ChainSummary,
            read_page,
            partial(_serialize_summaries, cluster_id),
        )
    rows = read_page(paging.tx, None, paging.limit)
    links = chains.list_links_by_chain(paging.tx, cluster_id, [chain.chain_id for chain in rows])
    modes = read_modes(paging.tx, cluster_id)
    return paging.build_page(
        chain_schemas.ChainPage,
        rows,
        view=lambda chain: serializers.serialize_chain_summary(chain, links[chain.chain_id], modes),
        cursor=lambda chain: chain.chain_id,
    )


def _serialize_summaries(
    cluster_id: int, tx: Transaction, rows: Sequence[Chain]
) -> list[chain_schemas.ChainSummary]:
    links = chains.list_links_by_chain(tx, cluster_id, [chain.chain_id for chain in rows])
    modes = read_modes(tx, cluster_id)
    return [
        serializers.serialize_chain_summary(chain, links[chain.chain_id], modes) for chain in rows
    ]


def _resolve_cursor(paging: PageRequest, reader: Principal, cursor: str) -> ChainId:
    try:
        return get_visible_chain(
            paging.tx, paging.context.cluster_id, ChainId(cursor), reader
        ).chain_id
    except (NotFound, ProblemError) as error:
        hidden = error.refusal if isinstance(error, ProblemError) else None
        raise build_invalid_error(NO_SUCH_CURSOR, parameter="cursor", refusal=hidden) from None


@router.post(
    "/chains",
    operation_id="registerChain",
    status_code=201,
    responses=describe_write_errors(409, 412, 429),
)
def register_chain(
    *,
    new: registration_schemas.NewChain,
    request: Request,
    response: Response,
    context: Context,
    writer: Writer,
    tx: Writing,
    key: Idempotency,
    if_match: IfMatch,
) -> chain_schemas.ChainView:
    """Register a chain whose first link is already submitted. Repeating the request changes
    nothing."""
    response.headers["Location"] = f"{request.url.path}/{new.chain_id}"

    def read_chain() -> chain_schemas.ChainView:
        visible = get_visible_chain(tx, context.cluster_id, ChainId(new.chain_id), writer)
        return _read_chain_view(tx, context, visible.chain_id)

    def register_new_chain() -> chain_schemas.ChainView:
        if_match(read_chain)
        return _register_new_chain(tx, context, new, writer)

    return key.run_once(register_new_chain, read_chain)


def _register_new_chain(
    tx: Transaction, context: ApiContext, new: registration_schemas.NewChain, writer: Principal
) -> chain_schemas.ChainView:
    if writer.uid == NOBODY_UID:
        raise NotAllowed(
            "a chain needs a user, and this token belongs to none: use a token of a user, or MUNGE"
        )
    if new.policy is not None:
        _check_policy(context, new.policy)
    registration = Registration(
        chain_id=ChainId(new.chain_id),
        links=new.links,
        job_id=JobId(new.job_id),
        policy=new.policy,
        overlap_price=new.overlap_price,
        total_s=new.total_s,
        max_overlap_s=new.max_overlap_s,
        presubmit=new.presubmit,
        style=new.style,
        mode=new.mode,
        min_runtime_s=new.min_runtime_s,
        max_returns=new.max_returns,
    )
    bounds = chain_quota.ChainQuota(
        live=limit_overrides.read_effective_limits(
            tx, context.cluster_id, context.limits
        ).max_chains_per_user,
        a_day=context.quotas.registrations_per_day,
    )
    chain_quota.check_chain_quota(
        tx, context.cluster_id, registration.chain_id, writer.uid, bounds, now=context.clock()
    )
    try:
        chain_service.register_chain(
            tx,
            context.cluster_id,
            registration,
            uid=writer.uid,
            user=writer.user,
            now=context.clock(),
        )
    except NotAllowed as error:
        if writer.can_see_all_chains:
            raise
        # The caller must not learn that the chain exists, nor who owns it.
        raise build_invalid_error(
            "this chain cannot be registered under this chain_id: choose another chain_id",
            pointer="#/chain_id",
            refusal=error,
        ) from None
    return _read_chain_view(tx, context, ChainId(new.chain_id))


def _check_policy(context: ApiContext, name: str) -> None:
    if name in context.policies:
        return
    if context.model is None or not is_model(name):
        choices = ", ".join(context.policies)
        raise build_invalid_error(
            f"unknown policy {name!r}: choose one of {choices}", pointer="#/policy"
        )
    try:
        context.model(name)
    except InputError as error:
        raise build_invalid_error(str(error), pointer="#/policy") from error


def _read_chain_view(
    tx: Transaction, context: ApiContext, chain_id: ChainId
) -> chain_schemas.ChainView:
    chain = chains.get_chain(tx, context.cluster_id, chain_id)
    links = chains.list_links(tx, context.cluster_id, chain_id)
    freshness = read_freshness(tx, context)
    # The last look at the queue, so that the answer, and its ETag, stand until the next one.
    now = context.clock() if freshness.as_of is None else int(freshness.as_of.timestamp())
    return serializers.serialize_chain(
        chain,
        links,
        freshness,
        read_modes(tx, context.cluster_id),
        read_expected_start(tx, context.cluster_id, chain, links, now=now),
        limit_overrides.read_effective_limits(tx, context.cluster_id, context.limits).max_returns,
    )


@router.get("/chains/{chain_id}", operation_id="getChain", responses=describe_read_errors(401, 404))
def get_chain(
    chain_id: ChainPath, context: Context, reader: Reader, tx: Reading
) -> chain_schemas.ChainView:
    """Return one chain with its links and hand-overs."""
    return _read_chain_view(
        tx, context, get_visible_chain(tx, context.cluster_id, ChainId(chain_id), reader).chain_id
    )


def _build_decision_filter(
    time_range: TimeRangeQuery,
    action: Annotated[Action | None, Query(description="Only decisions for this action.")] = None,
    effect: Annotated[Effect | None, Query(description="Only decisions with this effect.")] = None,
    mode: Annotated[
        Mode | None, Query(description="Only decisions that were made in this mode.")
    ] = None,
    policy: Annotated[
        str | None, Query(max_length=80, description="Only decisions of this policy.")
    ] = None,
) -> DecisionFilter:
    return DecisionFilter(
        action=action,
        effect=effect,
        mode=mode,
        policy=policy,
        since=time_range.since,
        until=time_range.until,
    )


DecisionFilterQuery = Annotated[DecisionFilter, Depends(_build_decision_filter)]


@router.get(
    "/chains/{chain_id}/decisions",
    operation_id="listChainDecisions",
    response_model=chain_schemas.DecisionPage,
    responses=describe_read_errors(404, 429) | EXPORTED,
)
def list_chain_decisions(
    chain_id: ChainPath,
    paging: Paging,
    reader: Reader,
    where: DecisionFilterQuery,
    answer_format: AsFormat,
) -> chain_schemas.DecisionPage | Response:
    """List the decisions on one chain, newest first, with reasons and inputs."""
    chain = get_visible_chain(paging.tx, paging.context.cluster_id, ChainId(chain_id), reader)
    return _build_decision_response(paging, answer_format, where, chain_id=chain.chain_id)


@router.get(
    "/decisions",
    operation_id="listDecisions",
    response_model=chain_schemas.DecisionPage,
    responses=describe_read_errors(429) | EXPORTED,
)
def list_decisions(
    paging: Paging, reader: Reader, where: DecisionFilterQuery, answer_format: AsFormat
) -> chain_schemas.DecisionPage | Response:
    """List the decisions on all chains that the caller may see, newest first."""
    require_identity(reader, JOBS, USAGE)
    own_rows = None if reader.can_see_all_chains else reader.build_own_rows()
    return _build_decision_response(paging, answer_format, where, own_rows=own_rows)


def _build_decision_response(
    paging: PageRequest,
    answer_format: Format,
    where: DecisionFilter,
    *,
    chain_id: ChainId | None = None,
    own_rows: OwnRows | None = None,
) -> chain_schemas.DecisionPage | Response:
    cluster_id, begin = paging.context.cluster_id, paging.after

    def read_page(tx: Transaction, last: DecisionRow | None, limit: int) -> list[DecisionRow]:
        after = begin if last is None else last.id
        return decisions.list_decisions(
            tx, cluster_id, chain_id=chain_id, own=own_rows, after=after, limit=limit, where=where
        )

    if answer_format is not Format.JSON:
        return file_export.export_rows(
            paging.request,
            answer_format,
            chain_schemas.DecisionView,
            read_page,
            _serialize_decisions,
        )
    return paging.build_page(
        chain_schemas.DecisionPage,
        read_page(paging.tx, None, paging.limit),
        view=chain_schemas.DecisionView.model_validate,
        cursor=lambda row: str(row.id),
    )


def _serialize_decisions(
    _tx: Transaction, rows: Sequence[DecisionRow]
) -> list[chain_schemas.DecisionView]:
    return [chain_schemas.DecisionView.model_validate(row) for row in rows]


def _prepare_state_view(
    context: Context, tx: Writing, ask: StateRequest, if_match: IfMatch
) -> Callable[[ChainState], chain_schemas.ChainView]:
    """Return a function that requests a state of the chain and returns the chain's new view."""

    def check(chain: Chain) -> None:
        if_match(lambda: _read_chain_view(tx, context, chain.chain_id))

    return lambda target: _read_chain_view(tx, context, ask(target, check).chain_id)


StateRequestView = Annotated[
    Callable[[ChainState], chain_schemas.ChainView], Depends(_prepare_state_view)
]


@router.post(
    "/chains/{chain_id}/pause",
    operation_id="pauseChain",
    responses=describe_write_errors(404, 409, 412),
)
def pause_chain(ask: StateRequestView) -> chain_schemas.ChainView:
    """Pause the chain: no further link starts until it is resumed. The running link continues."""
    return ask(ChainState.PAUSED)


@router.post(
    "/chains/{chain_id}/resume",
    operation_id="resumeChain",
    responses=describe_write_errors(404, 409, 412),
)
def resume_chain(ask: StateRequestView) -> chain_schemas.ChainView:
    """Resume a paused chain."""
    return ask(ChainState.ACTIVE)


@router.post(
    "/chains/{chain_id}/cancel",
    operation_id="cancelChain",
    responses=describe_write_errors(404, 409, 412),
)
def cancel_chain(ask: StateRequestView) -> chain_schemas.ChainView:
    """End the chain: its standby is cancelled, then its running links."""
    return ask(ChainState.CANCELLED)
