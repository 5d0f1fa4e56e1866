"""The section Learning of the page Admin: runs, champion and challenger, and what an admin decides
about them."""

from typing import Any

from fastapi import APIRouter, Response
from markupsafe import Markup

from mirage.database.learning.challenges import Challenge, ChallengeState
from mirage.errors import InputError
from mirage.provision.learning.model_promoter import PromotionMode
from mirage.reports import learning_status
from mirage.reports.learning_status import describe_material, explain_run
from mirage.web.charts import accuracy_charts
from mirage.web.pages import forms
from mirage.web.pages.page_context import CurrentPage, PageContext
from mirage.web.shared import learning_requests
from mirage.web.shared.dependencies import AdminWriter, Body
from mirage.web.shared.learning_requests import Verdict

router = APIRouter(prefix="/admin/learning", include_in_schema=False)

DONE = {
    Verdict.PROMOTE.value: "The model is in use from the worker's next tick on.",
    Verdict.DECLINE.value: "The model is declined.",
    Verdict.TAKE_BACK.value: "The model is not in use any more.",
}
"""What the page says after a form was sent."""

_MODES = {
    PromotionMode.ASK: "A model that was cheaper beyond luck waits here for an admin.",
    PromotionMode.AUTO: "A model that was cheaper beyond luck is put in use by itself.",
    PromotionMode.NEVER: "No model is put in use by itself, and none is proposed.",
}
_STATES = {
    ChallengeState.SHADOW: "decides in shadow",
    ChallengeState.PROPOSED: "proposed",
    ChallengeState.PROMOTED: "promoted",
    ChallengeState.DROPPED: "dropped",
    ChallengeState.ROLLED_BACK: "taken back",
    ChallengeState.DECLINED: "declined",
}


@router.post("/{verdict}")
def decide_model(verdict: Verdict, page: CurrentPage, admin: AdminWriter, body: Body) -> Response:
    """Promote or decline the challenger, or take the champion back."""
    fields = forms.parse_form(page.request, body)
    model = forms.get_field(fields, "model")
    if not model:
        raise InputError("the form names no model: load the page again and resend it")
    via = page.request.state.caller.via
    learning_requests.carry_out(page.context, verdict, model, actor=admin.user, via=via)
    return forms.return_to_page(page.context, f"/admin?done={verdict.value}#learning")


def collect_learning(page: PageContext) -> dict[str, Any]:
    """Return the values of the section, for the page's template."""
    context = page.context
    status = learning_status.read_learning_status(
        page.tx, page.cluster_id, context.cluster_name, context.models_dir
    )
    return {
        "learning": status,
        "promotion_mode": _MODES[context.promotion_mode],
        "tradeoff": _draw_figures(status),
        "describe_material": describe_material,
        "explain_run": explain_run,
        "describe_state": _describe_state,
    }


def _draw_figures(status: learning_status.LearningStatus) -> Markup:
    rows = list(status.figures.items())
    return accuracy_charts.draw_tradeoff(rows, name="learned") if rows else Markup("")


def _describe_state(challenge: Challenge) -> str:
    return _STATES[challenge.state]
