"""The page Admin: kill switch, modes, limits, models, the cost of Slurm calls, health, audit."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from mirage.database.events import audit
from mirage.database.jobs import queue_summary
from mirage.database.operations import clusters
from mirage.database.operations.admin_overrides import PulledSwitch
from mirage.domain.decision import Mode
from mirage.errors import InputError
from mirage.policies import model_catalog
from mirage.provision.control import kill_switch, limit_overrides, modes
from mirage.provision.control.kill_switch import RELEASED_BY, Way
from mirage.provision.control.limit_overrides import ADJUSTABLE_LIMITS
from mirage.reports import service_status, slurmctld_load
from mirage.web.charts import calls_chart
from mirage.web.pages import admin_learning, forms
from mirage.web.pages.page_context import CurrentPage, NavigationEntry, PageContext
from mirage.web.shared.dependencies import Admin, AdminWriter, Body, Context, Writing

ENTRY = NavigationEntry(name="Admin", path="/admin", order=90, admins=True)

router = APIRouter(prefix="/admin", include_in_schema=False)

_HOURS = 24
_RECENT = 8
_DONE = {
    "pulled": "The kill switch is pulled. Mirage changes nothing in Slurm from its next tick on.",
    "released": "The kill switch is released.",
    "mode": "The mode is set. It applies from the worker's next tick on.",
    "unmode": "The partition has no mode of its own any more. The cluster's mode applies to it.",
    "limit": "The limit is set. It applies from the worker's next tick on.",
    "unlimit": "The limit is back at its configured value.",
    **admin_learning.DONE,
}
"""What the page says after a form was sent."""

# ruff: noqa: ARG001 - the parameter `admin` alone makes a route require an admin


@router.get("")
def show_admin(
    page: CurrentPage, admin: Admin, done: Annotated[str, Query(max_length=16)] = ""
) -> Response:
    """Show the page; `done` is the name of the form that was sent just before."""
    tx, context = page.tx, page.context
    polling = service_status.read_polling_cost(tx, page.cluster_id, now=page.now, hours=_HOURS)
    return page.render_page(
        "admin.html",
        title="Admin",
        done=_DONE.get(done, ""),
        pulled=_list_pulled(page),
        ways=_list_ways(page),
        own_modes=dict(sorted(page.modes.own_modes.items())),
        partitions=queue_summary.list_partitions(tx, page.cluster_id),
        means=modes.MEANS,
        limits=limit_overrides.list_limits(
            tx, page.cluster_id, context.limits, context.limit_descriptions
        ),
        caps=ADJUSTABLE_LIMITS,
        format_limit=_format_limit,
        models=[]
        if context.models_dir is None
        else model_catalog.list_versions(context.models_dir),
        **admin_learning.collect_learning(page),
        polling=polling,
        slurmctld=slurmctld_load.read_last_usage(tx, page.cluster_id),
        chart=calls_chart.draw_calls(polling, _HOURS),
        health=service_status.read_status(tx, page.cluster_id),
        recent=audit.list_entries(tx, page.cluster_id, limit=_RECENT),
    )


@router.get("/kill")
def show_pull_confirmation(page: CurrentPage, admin: Admin) -> Response:
    current_modes = clusters.list_modes(page.tx, page.cluster_id)
    acting = sorted(name for name, mode in current_modes.items() if mode is Mode.ACT)
    return page.render_page("admin_kill.html", title="Stop all actions?", acting=acting, live=False)


@router.post("/kill")
def pull_kill_switch(
    request: Request, context: Context, admin: AdminWriter, body: Body, tx: Writing
) -> Response:
    forms.parse_form(request, body)
    kill_switch.pull_switch(tx, context.cluster_id, Way.REST, now=context.clock(), actor=admin.user)
    return forms.return_to_page(context, "/admin?done=pulled")


@router.get("/release")
def show_release_confirmation(page: CurrentPage, admin: Admin) -> Response:
    pulled = _list_pulled(page)
    stopped = sorted({name for switch in pulled for name in switch.stopped})
    return page.render_page(
        "admin_release.html",
        title="Release the kill switch?",
        pulled=pulled,
        by_file=[switch for switch in pulled if switch.way == Way.FILE],
        file=page.context.kill_file,
        stopped=stopped,
        live=False,
    )


@router.post("/release")
def release_kill_switch(
    request: Request, context: Context, admin: AdminWriter, body: Body, tx: Writing
) -> Response:
    act_again = bool(forms.get_field(forms.parse_form(request, body), "act_again"))
    now = context.clock()
    kill_switch.release_switch(
        tx, context.cluster_id, now=now, actor=admin.user, act_again=act_again
    )
    return forms.return_to_page(context, "/admin?done=released")


@router.post("/mode")
def set_mode(
    request: Request, context: Context, admin: AdminWriter, body: Body, tx: Writing
) -> Response:
    fields = forms.parse_form(request, body)
    mode, partition = forms.get_field(fields, "mode"), forms.get_field(fields, "partition")
    if mode not in set(Mode) or len(partition) > 64:  # noqa: PLR2004 - as the API has it
        raise InputError(
            f"choose a mode of {', '.join(Mode)}, and a partition of at most 64 characters"
        )
    now = context.clock()
    if "unset" in fields:
        modes.unset_mode(tx, context.cluster_id, partition, now=now, actor=admin.user)
        return forms.return_to_page(context, "/admin?done=unmode#modes")
    modes.check_partition(tx, context.cluster_id, partition)
    modes.set_mode(tx, context.cluster_id, Mode(mode), partition, now=now, actor=admin.user)
    return forms.return_to_page(context, "/admin?done=mode#modes")


@router.post("/limits/{name}")
def set_limit(
    name: str, request: Request, context: Context, admin: AdminWriter, body: Body, tx: Writing
) -> Response:
    fields = forms.parse_form(request, body)
    value = None if "unset" in fields else _parse_number(name, forms.get_field(fields, "value"))
    limit_overrides.set_limit_override(
        tx, context.cluster_id, name, value, now=context.clock(), actor=admin.user
    )
    return forms.return_to_page(
        context, f"/admin?done={'limit' if value is not None else 'unlimit'}#limits"
    )


def _parse_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, not {text!r}") from None


def _format_limit(name: str, value: float) -> str:
    return ("yes" if value else "no") if ADJUSTABLE_LIMITS[name].flag else f"{value:g}"


def _list_pulled(page: PageContext) -> list[PulledSwitch]:
    return list(kill_switch.list_pulls(page.tx, page.cluster_id))


def _list_ways(page: PageContext) -> list[tuple[Way, PulledSwitch | None, str]]:
    """List each way to pull the switch, who pulled it that way, and how to release it."""
    switches = {switch.way: switch for switch in _list_pulled(page)}
    return [(way, switches.get(way.value), RELEASED_BY[way]) for way in Way]
