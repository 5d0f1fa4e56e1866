"""Routes about the service itself: whether it is alive and ready, and its mode."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from mirage.database.events import audit
from mirage.database.events.audit import AuditFilter
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, PARTITIONS, Principal
from mirage.domain.chain import ChainId
from mirage.errors import InputError, NotFound
from mirage.provision.control import kill_switch, modes
from mirage.provision.control.kill_switch import Way
from mirage.web.api import metrics
from mirage.web.api.admin_serializers import serialize_kill_switch
from mirage.web.api.openapi import describe_errors, describe_read_errors, describe_write_errors
from mirage.web.api.schemas import chain_schemas, cluster_schemas
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import (
    Admin,
    AdminWriter,
    Context,
    Reader,
    Reading,
    Writing,
    read_freshness,
    require_identity,
)
from mirage.web.shared.idempotent_requests import Idempotency
from mirage.web.shared.if_match import IfMatch
from mirage.web.shared.paging import Paging, TimeRangeQuery
from mirage.web.shared.problems import KINDS, NOT_READY, ProblemError, build_invalid_error

router = APIRouter(tags=["system"])
probes = APIRouter(tags=["system"])
"""Routes outside the versioned prefix, where monitoring looks for them."""


@probes.get("/healthz", operation_id="getHealth")
def get_health() -> chain_schemas.Health:
    """Answer while the process is alive."""
    return chain_schemas.Health()


@probes.get(
    "/readyz",
    operation_id="getReadiness",
    response_model_exclude_none=True,
    responses=describe_errors(500, 503),
)
def get_readiness(context: Context) -> chain_schemas.Readiness:
    """Check that the database has this program's schema and that Slurm was read recently."""
    context.store.check_schema()
    with context.store.read() as tx:
        freshness = read_freshness(tx, context)
    if freshness.as_of is None:
        raise ProblemError(
            NOT_READY,
            "Mirage has not read the cluster's state from Slurm yet: run `mirage doctor`",
        )
    if freshness.stale:
        raise ProblemError(
            NOT_READY,
            f"Mirage last read the cluster's state at {freshness.as_of.isoformat()}, "
            f"more than {context.stale_after_s} s ago: run `mirage doctor`",
        )
    return chain_schemas.Readiness(detail=context.shortcoming or None)


@probes.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=PlainTextResponse,
    responses=describe_errors(401, 403, 413, 500, 503),
)
def get_metrics(context: Context, reader: Reader) -> Response:
    """Return the metrics for Prometheus.

    Where Slurm's PrivateData hides jobs, the caller needs a token; any role will do.
    """
    require_identity(reader, JOBS)
    return Response(metrics.render_metrics(context), media_type=metrics.MEDIA_TYPE)


@probes.get(
    "/problems/{name}",
    operation_id="explainProblem",
    response_class=PlainTextResponse,
    responses=describe_errors(404),
)
def explain_problem(name: str) -> PlainTextResponse:
    """Explain what a problem's `type` means and what to do about it."""
    kind = KINDS.get(name)
    if kind is None:
        raise NotFound(f"Mirage has no problem type named {name}")
    return PlainTextResponse(f"{kind.title} ({kind.status})\n\n{kind.advice}\n")


@router.get("/mode", operation_id="getMode", responses=describe_read_errors(401))
def get_mode(context: Context, reader: Reader, tx: Reading) -> cluster_schemas.Modes:
    """Return the mode of the cluster and, if the caller may see partitions, of each partition."""
    return _read_modes(tx, context, reader)


@router.put("/mode", operation_id="setMode", responses=describe_write_errors(409, 412))
def set_mode(
    new: cluster_schemas.NewMode,
    context: Context,
    admin: AdminWriter,
    tx: Writing,
    if_match: IfMatch,
) -> cluster_schemas.Modes:
    """Set the mode of a partition or of the cluster.

    The mode cannot be set to act while the kill switch is pulled.
    """
    if_match(lambda: _read_modes(tx, context, admin))
    now = context.clock()
    try:
        if new.mode is None:
            modes.unset_mode(tx, context.cluster_id, new.partition, now=now, actor=admin.user)
            return _read_modes(tx, context, admin)
        modes.check_partition(tx, context.cluster_id, new.partition)
    except InputError as error:
        raise build_invalid_error(str(error), pointer="#/partition") from error
    modes.set_mode(tx, context.cluster_id, new.mode, new.partition, now=now, actor=admin.user)
    return _read_modes(tx, context, admin)


@router.post("/kill", operation_id="stopActing", responses=describe_write_errors(409, 412))
def stop_acting(
    context: Context, admin: AdminWriter, tx: Writing, key: Idempotency, if_match: IfMatch
) -> cluster_schemas.Modes:
    """Pull the kill switch: mode act works like shadow until the release.

    Running jobs are not touched.
    """

    def pull_kill_switch() -> cluster_schemas.Modes:
        pulls = kill_switch.list_pulls(tx, context.cluster_id)
        if_match(lambda: serialize_kill_switch(pulls, context.kill_file))
        kill_switch.pull_switch(
            tx, context.cluster_id, Way.REST, now=context.clock(), actor=admin.user
        )
        return _read_modes(tx, context, admin)

    return key.run_once(pull_kill_switch, lambda: _read_modes(tx, context, admin))


def _read_modes(tx: Transaction, context: ApiContext, reader: Principal) -> cluster_schemas.Modes:
    in_force = read_modes(tx, context.cluster_id)
    in_force = in_force if reader.can_see(PARTITIONS) else in_force.hide_names()
    return cluster_schemas.Modes(
        mode=in_force.cluster_mode,
        partitions=in_force.own_modes,
        says=in_force.describe(),
        kill_switch=bool(in_force.pulled),
        demoted=[
            demotion.explain()
            for demotion in in_force.demotions
            if reader.is_admin or demotion.place.uid == reader.uid
        ],
    )


@router.get("/audit", operation_id="listAudit", responses=describe_read_errors(401, 403))
def list_audit(
    admin: Admin,  # noqa: ARG001 - it makes the route require an admin
    paging: Paging,
    time_range: TimeRangeQuery,
    chain_id: Annotated[str | None, Query(max_length=32)] = None,
    actor: Annotated[
        str | None,
        Query(
            max_length=64,
            description="Only entries of this actor: a user, or `mirage` for the service.",
        ),
    ] = None,
    event: Annotated[str | None, Query(max_length=80, examples=["free: done"])] = None,
) -> cluster_schemas.AuditPage:
    """List what people and Mirage did, and what Mirage found; newest first."""
    rows = audit.list_entries(
        paging.tx,
        paging.context.cluster_id,
        chain_id=None if chain_id is None else ChainId(chain_id),
        event=event,
        after=paging.after,
        limit=paging.limit,
        where=AuditFilter(actor=actor, since=time_range.since, until=time_range.until),
    )
    return paging.build_page(
        cluster_schemas.AuditPage,
        rows,
        view=cluster_schemas.AuditView.model_validate,
        cursor=lambda row: str(row.id),
    )
