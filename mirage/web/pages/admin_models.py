"""The page of a trained model: its card, its promotions, and the form that promotes it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from markupsafe import Markup

from mirage.errors import IllegalTransition, InputError
from mirage.web import formatting
from mirage.web.pages import forms
from mirage.web.pages.page_context import CurrentPage, PageContext
from mirage.web.shared import promotion_requests
from mirage.web.shared.dependencies import Admin, AdminWriter, Body
from mirage.web.shared.model_paths import ModelNamePath, ModelVersionPath

router = APIRouter(prefix="/admin/models", include_in_schema=False)

_TICKED = "1"
"""The value that a ticked box sends."""
_OK, _CONFLICT = 200, 409

# ruff: noqa: ARG001 - the parameter `admin` alone makes a route require an admin


@router.get("/{name}/{version}")
def show_model(
    name: ModelNamePath,
    version: ModelVersionPath,
    page: CurrentPage,
    admin: Admin,
    done: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    message = "It is in use now." if done == "promoted" else ""
    return _render_page(page, name, version, done=message)


@router.post("/{name}/{version}/promote")
def promote_model(
    name: ModelNamePath,
    version: ModelVersionPath,
    page: CurrentPage,
    admin: AdminWriter,
    body: Body,
) -> Response:
    """Compare the model, and promote it if it is better; else the page says why it is not."""
    fields = forms.parse_form(page.request, body)
    request = promotion_requests.PromotionRequest(
        model=promotion_requests.format_model_name(name, version),
        tables=tuple(fields.get("table", ())),
        force=forms.get_field(fields, "force") == _TICKED,
    )
    via = page.request.state.caller.via
    try:
        promotion_requests.promote_model(page.context, request, actor=admin.user, via=via)
    except (IllegalTransition, InputError) as error:
        return _render_page(page, name, version, refusal=str(error))
    return forms.return_to_page(page.context, f"/admin/models/{name}/{version}?done=promoted")


def _render_page(
    page: PageContext, name: str, version: str, *, done: str = "", refusal: str = ""
) -> Response:
    model = promotion_requests.get_model(page.context, name, version)
    return page.render_page(
        "admin_model.html",
        title=model.line.model,
        status=_CONFLICT if refusal else _OK,
        model=model,
        card=json.dumps(dict(model.card), indent=2, ensure_ascii=False),
        path_of=f"/admin/models/{name}/{version}",
        tables=promotion_requests.list_tables(page.context),
        tables_dir=page.context.tables_dir,
        when_of=_render_promotion_time,
        difference=_format_difference,
        done=done,
        refusal=refusal,
        live=False,
    )


def _render_promotion_time(record: Mapping[str, Any]) -> Markup | str:
    """Return when the promotion was made. A record is a line of a file and may hold anything."""
    at = record.get("at")
    return formatting.render_instant(at) if isinstance(at, int) else "unknown"


def _format_difference(record: Mapping[str, Any]) -> str:
    mean, ends = record.get("difference_h"), record.get("difference_h_ci")
    if not isinstance(mean, float) or not isinstance(ends, list):
        return "not compared"
    low, high = ends
    return f"{mean:+.3f} h ({low:+.3f} to {high:+.3f} h)"
