"""Serves the admins' routes: kill switch, limits, models, cost of Slurm calls, service status.

The page Admin calls the same functions of `reports`, `provision` and `policies`.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from mirage.policies import model_catalog
from mirage.provision.control import kill_switch, limit_overrides
from mirage.reports import service_status, slurmctld_load
from mirage.web.api import admin_serializers as views
from mirage.web.api.openapi import describe_read_errors, describe_write_errors
from mirage.web.api.schemas import admin_schemas as schemas
from mirage.web.shared import promotion_requests
from mirage.web.shared.dependencies import Admin, AdminWriter, Context, Reading, Writing
from mirage.web.shared.idempotent_requests import Idempotency
from mirage.web.shared.if_match import IfMatch
from mirage.web.shared.model_paths import ModelNamePath, ModelVersionPath

router = APIRouter(tags=["admin"])

# ruff: noqa: ARG001 - the parameter `admin` alone makes a route require an admin


@router.get("/kill", operation_id="getKillSwitch", responses=describe_read_errors(401, 403))
def get_kill_switch(context: Context, admin: Admin, tx: Reading) -> schemas.KillSwitch:
    """List the ways by which the kill switch is pulled, and how to release each."""
    return views.serialize_kill_switch(
        kill_switch.list_pulls(tx, context.cluster_id), context.kill_file
    )


@router.post(
    "/kill/release", operation_id="releaseKillSwitch", responses=describe_write_errors(409, 412)
)
def release_kill_switch(
    release: schemas.Release,
    context: Context,
    admin: AdminWriter,
    tx: Writing,
    key: Idempotency,
    if_match: IfMatch,
) -> schemas.KillSwitch:
    """Release the kill switch where a command or REST pulled it. A pulling file has to be
    removed."""

    def release_pulled() -> schemas.KillSwitch:
        if_match(read_kill_switch)
        now = context.clock()
        kill_switch.release_switch(
            tx, context.cluster_id, now=now, actor=admin.user, act_again=release.act_again
        )
        return read_kill_switch()

    def read_kill_switch() -> schemas.KillSwitch:
        return views.serialize_kill_switch(
            kill_switch.list_pulls(tx, context.cluster_id), context.kill_file
        )

    return key.run_once(release_pulled, read_kill_switch)


@router.get("/limits", operation_id="getLimits", responses=describe_read_errors(401, 403))
def get_limits(context: Context, admin: Admin, tx: Reading) -> schemas.LimitList:
    """List the limits that bind every policy, and who set each of them."""
    limits = limit_overrides.list_limits(
        tx, context.cluster_id, context.limits, context.limit_descriptions
    )
    return schemas.LimitList(items=[views.serialize_limit(limit) for limit in limits])


@router.put("/limits/{name}", operation_id="setLimit", responses=describe_write_errors(404, 412))
def set_limit(
    name: Annotated[str, Path(max_length=64, examples=["max_touches"])],
    new: schemas.NewLimit,
    context: Context,
    admin: AdminWriter,
    tx: Writing,
    if_match: IfMatch,
) -> schemas.LimitList:
    """Set a limit in place of the configured one, from the worker's next tick on."""
    if_match(lambda: get_limits(context, admin, tx))
    now = context.clock()
    limit_overrides.set_limit_override(
        tx, context.cluster_id, name, new.value, now=now, actor=admin.user
    )
    return get_limits(context, admin, tx)


@router.get("/models", operation_id="getModels", responses=describe_read_errors(401, 403))
def get_models(context: Context, admin: Admin) -> schemas.ModelList:
    """List the trained models that the service finds, and the version of each that is in use."""
    versions = [] if context.models_dir is None else model_catalog.list_versions(context.models_dir)
    return schemas.ModelList(
        items=[views.serialize_model_line(line) for line in versions],
        tables=promotion_requests.list_tables(context),
    )


@router.get(
    "/models/{name}/{version}",
    operation_id="getModel",
    responses=describe_read_errors(401, 403, 404),
)
def get_model(
    name: ModelNamePath, version: ModelVersionPath, context: Context, admin: Admin
) -> schemas.ModelView:
    """Return a model's card, and why versions of this model were promoted."""
    return views.serialize_model(promotion_requests.get_model(context, name, version))


@router.put(
    "/models/{name}/promoted",
    operation_id="promoteModel",
    responses=describe_write_errors(404, 409, 412, 429),
)
def promote_model(
    name: ModelNamePath,
    promotion: schemas.Promote,
    request: Request,
    context: Context,
    admin: AdminWriter,
    if_match: IfMatch,
) -> schemas.Evidence:
    """Put a version in use if it beats the version in use now.

    Both are judged on tables that neither has seen. The first version of a name has to beat the
    better of the twin and `quantile`. The 95 % interval of the difference in cost has to lie below
    zero. Otherwise the answer is 409 with the figures.
    """
    if_match(lambda: get_models(context, admin))
    review = promotion_requests.promote_model(
        context,
        promotion_requests.PromotionRequest(
            model=promotion_requests.format_model_name(name, promotion.version),
            tables=tuple(promotion.tables),
            force=promotion.force,
        ),
        actor=admin.user,
        via=request.state.caller.via,
    )
    return views.serialize_evidence(review)


@router.get("/polling", operation_id="getPolling", responses=describe_read_errors(401, 403))
def get_polling(
    context: Context,
    admin: Admin,
    tx: Reading,
    hours: Annotated[
        int, Query(ge=1, le=720, description="The number of hours, with the present one.")
    ] = 24,
) -> schemas.PollingView:
    """Return the cost of Mirage's Slurm calls, as its worker and as slurmctld count them."""
    polling = service_status.read_polling_cost(
        tx, context.cluster_id, now=context.clock(), hours=hours
    )
    return views.serialize_polling(polling, slurmctld_load.read_last_usage(tx, context.cluster_id))


@router.get("/status", operation_id="getStatus", responses=describe_read_errors(401, 403))
def get_status(context: Context, admin: Admin, tx: Reading) -> schemas.StatusView:
    """Return the worker's last round, the holder of the lease, the database's size, and
    versions."""
    return views.serialize_status(
        service_status.read_status(tx, context.cluster_id), context.clock()
    )
