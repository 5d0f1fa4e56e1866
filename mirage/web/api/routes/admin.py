"""Serves the admins' routes: kill switch, limits, models, cost of Slurm calls, service status.

Each route calls a function of `services`; the page Admin calls the same functions.
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

# ruff: noqa: ARG001 - an admin is asked for by being named


@router.get("/kill", operation_id="getKillSwitch", responses=describe_read_errors(401, 403))
def get_kill_switch(given: Context, who: Admin, tx: Reading) -> schemas.KillSwitch:
    """List the ways by which the kill switch is pulled, and how to release each."""
    return views.serialize_kill_switch(
        kill_switch.list_pulls(tx, given.cluster_id), given.kill_file
    )


@router.post(
    "/kill/release", operation_id="releaseKillSwitch", responses=describe_write_errors(409, 412)
)
def release_kill_switch(
    asked: schemas.Release,
    given: Context,
    who: AdminWriter,
    tx: Writing,
    key: Idempotency,
    if_match: IfMatch,
) -> schemas.KillSwitch:
    """Release the kill switch where a command or REST pulled it. A pulling file has to be
    removed."""

    def release_pulled() -> schemas.KillSwitch:
        if_match(read_kill_switch)
        now = given.clock()
        kill_switch.release_switch(
            tx, given.cluster_id, now=now, actor=who.user, act_again=asked.act_again
        )
        return read_kill_switch()

    def read_kill_switch() -> schemas.KillSwitch:
        return views.serialize_kill_switch(
            kill_switch.list_pulls(tx, given.cluster_id), given.kill_file
        )

    return key.run_once(release_pulled, read_kill_switch)


@router.get("/limits", operation_id="getLimits", responses=describe_read_errors(401, 403))
def get_limits(given: Context, who: Admin, tx: Reading) -> schemas.LimitList:
    """List the limits that bind every policy, and who set each of them."""
    found = limit_overrides.list_limits(tx, given.cluster_id, given.limits, given.limits_told)
    return schemas.LimitList(items=[views.serialize_limit(each) for each in found])


@router.put("/limits/{name}", operation_id="setLimit", responses=describe_write_errors(404, 412))
def set_limit(
    name: Annotated[str, Path(max_length=64, examples=["max_touches"])],
    new: schemas.NewLimit,
    given: Context,
    who: AdminWriter,
    tx: Writing,
    if_match: IfMatch,
) -> schemas.LimitList:
    """Set a limit in place of the configured one, from the worker's next tick on."""
    if_match(lambda: get_limits(given, who, tx))
    now = given.clock()
    limit_overrides.set_limit_override(
        tx, given.cluster_id, name, new.value, now=now, actor=who.user
    )
    return get_limits(given, who, tx)


@router.get("/models", operation_id="getModels", responses=describe_read_errors(401, 403))
def get_models(given: Context, who: Admin) -> schemas.ModelList:
    """List the trained models that the service finds, and the version of each that is in use."""
    found = [] if given.models_dir is None else model_catalog.list_versions(given.models_dir)
    return schemas.ModelList(
        items=[views.serialize_model_line(line) for line in found],
        tables=promotion_requests.list_tables(given),
    )


@router.get(
    "/models/{name}/{version}",
    operation_id="getModel",
    responses=describe_read_errors(401, 403, 404),
)
def get_model(
    name: ModelNamePath, version: ModelVersionPath, given: Context, who: Admin
) -> schemas.ModelView:
    """Return a model's card, and why versions of this model were promoted."""
    return views.serialize_model(promotion_requests.get_model(given, name, version))


@router.put(
    "/models/{name}/promoted",
    operation_id="promoteModel",
    responses=describe_write_errors(404, 409, 412, 429),
)
def promote_model(
    name: ModelNamePath,
    asked: schemas.Promote,
    request: Request,
    given: Context,
    who: AdminWriter,
    if_match: IfMatch,
) -> schemas.Evidence:
    """Put a version in use if it beats the version in use now.

    Both are judged on tables that neither has seen. The 95 % interval of the difference in cost has
    to lie below zero. Otherwise the answer is 409 with the figures.
    """
    if_match(lambda: get_models(given, who))
    found = promotion_requests.promote_model(
        given,
        promotion_requests.PromotionRequest(
            model=promotion_requests.format_model_name(name, asked.version),
            tables=tuple(asked.tables),
            force=asked.force,
        ),
        actor=who.user,
        via=request.state.who.via,
    )
    return views.serialize_evidence(found)


@router.get("/polling", operation_id="getPolling", responses=describe_read_errors(401, 403))
def get_polling(
    given: Context,
    who: Admin,
    tx: Reading,
    hours: Annotated[
        int, Query(ge=1, le=720, description="The number of hours, with the present one.")
    ] = 24,
) -> schemas.PollingView:
    """Return the cost of Mirage's Slurm calls, as its worker and as slurmctld count them."""
    found = service_status.read_polling_cost(tx, given.cluster_id, now=given.clock(), hours=hours)
    return views.serialize_polling(found, slurmctld_load.read_last_usage(tx, given.cluster_id))


@router.get("/status", operation_id="getStatus", responses=describe_read_errors(401, 403))
def get_status(given: Context, who: Admin, tx: Reading) -> schemas.StatusView:
    """Return the worker's last round, the holder of the lease, the database's size, and
    versions."""
    return views.serialize_status(service_status.read_status(tx, given.cluster_id), given.clock())
