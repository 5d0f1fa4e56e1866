"""Serves what the site has learned: runs, champion and challenger. Only admins read and change it.

The page Admin calls the same functions of `reports` and `provision`.
"""

from fastapi import APIRouter, Request

from mirage.reports import learning_status
from mirage.web.api import learning_serializers as views
from mirage.web.api.openapi import describe_read_errors, describe_write_errors
from mirage.web.api.schemas import learning_schemas as schemas
from mirage.web.shared import learning_requests
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import Admin, AdminWriter, Context
from mirage.web.shared.if_match import IfMatch
from mirage.web.shared.learning_requests import Verdict

router = APIRouter(tags=["admin"])

# ruff: noqa: ARG001 - the parameter `admin` alone makes a route require an admin


@router.get("/learning", operation_id="getLearning", responses=describe_read_errors(401, 403))
def get_learning(context: Context, admin: Admin) -> schemas.Learning:
    """Return the newest runs of learning, and champion and challenger with their figures."""
    return _read_learning(context)


@router.put(
    "/learning/challenger",
    operation_id="decideChallenger",
    responses=describe_write_errors(404, 409, 412),
)
def decide_challenger(
    decision: schemas.ChallengerDecision,
    request: Request,
    context: Context,
    admin: AdminWriter,
    if_match: IfMatch,
) -> schemas.Learning:
    """Promote the proposed model, or decline the model that decides in shadow or is proposed.

    The answer is 409 if the named model is not the challenger any more. To promote again what is in
    use changes nothing.
    """
    if_match(lambda: _read_learning(context))
    verdict = Verdict.PROMOTE if decision.state == "promoted" else Verdict.DECLINE
    via = request.state.caller.via
    learning_requests.carry_out(context, verdict, decision.model, actor=admin.user, via=via)
    return _read_learning(context)


@router.put(
    "/learning/champion",
    operation_id="takeBackChampion",
    responses=describe_write_errors(404, 409, 412),
)
def take_back_champion(
    decision: schemas.ChampionDecision,
    request: Request,
    context: Context,
    admin: AdminWriter,
    if_match: IfMatch,
) -> schemas.Learning:
    """Take the model of the site out of use; the one before it comes back.

    The answer is 409 if the named model is not in use.
    """
    if_match(lambda: _read_learning(context))
    via = request.state.caller.via
    learning_requests.carry_out(
        context, Verdict.TAKE_BACK, decision.model, actor=admin.user, via=via
    )
    return _read_learning(context)


def _read_learning(context: ApiContext) -> schemas.Learning:
    with context.store.read() as tx:
        status = learning_status.read_learning_status(
            tx, context.cluster_id, context.cluster_name, context.models_dir
        )
    return views.serialize_learning(status, context.promotion_mode)
