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
from mirage.web.pages import forms
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
}
"""What the page says after a form was sent."""

# ruff: noqa: ARG001 - the parameter `who` alone makes a route require an admin


@router.get("")
def show_admin(
    look: CurrentPage, who: Admin, done: Annotated[str, Query(max_length=16)] = ""
) -> Response:
    """Show the page; `done` is the name of the form that was sent just before."""
    tx, given = look.tx, look.given
    polling = service_status.read_polling_cost(tx, look.cluster_id, now=look.now, hours=_HOURS)
    return look.render_page(
        "admin.html",
        title="Admin",
        done=_DONE.get(done, ""),
        pulled=_list_pulled(look),
        ways=_list_ways(look),
        own_modes=dict(sorted(look.modes.own_modes.items())),
        partitions=queue_summary.list_partitions(tx, look.cluster_id),
        means=modes.MEANS,
        limits=limit_overrides.list_limits(tx, look.cluster_id, given.limits, given.limits_told),
        caps=ADJUSTABLE_LIMITS,
        value_of=_format_limit,
        models=[] if given.models_dir is None else model_catalog.list_versions(given.models_dir),
        polling=polling,
        slurmctld=slurmctld_load.read_last_usage(tx, look.cluster_id),
        chart=calls_chart.draw_calls(polling, _HOURS),
        health=service_status.read_status(tx, look.cluster_id),
        recent=audit.list_entries(tx, look.cluster_id, limit=_RECENT),
    )


@router.get("/kill")
def show_pull_confirmation(look: CurrentPage, who: Admin) -> Response:
    known = clusters.list_modes(look.tx, look.cluster_id)
    acting = sorted(name for name, mode in known.items() if mode is Mode.ACT)
    return look.render_page("admin_kill.html", title="Stop all actions?", acting=acting, live=False)


@router.post("/kill")
def pull_kill_switch(
    request: Request, given: Context, who: AdminWriter, body: Body, tx: Writing
) -> Response:
    forms.parse_form(request, body)
    kill_switch.pull_switch(tx, given.cluster_id, Way.REST, now=given.clock(), actor=who.user)
    return forms.return_to_page(given, "/admin?done=pulled")


@router.get("/release")
def show_release_confirmation(look: CurrentPage, who: Admin) -> Response:
    pulled = _list_pulled(look)
    stopped = sorted({name for each in pulled for name in each.stopped})
    return look.render_page(
        "admin_release.html",
        title="Release the kill switch?",
        pulled=pulled,
        by_file=[each for each in pulled if each.way == Way.FILE],
        file=look.given.kill_file,
        stopped=stopped,
        live=False,
    )


@router.post("/release")
def release_kill_switch(
    request: Request, given: Context, who: AdminWriter, body: Body, tx: Writing
) -> Response:
    again = bool(forms.get_field(forms.parse_form(request, body), "act_again"))
    now = given.clock()
    kill_switch.release_switch(tx, given.cluster_id, now=now, actor=who.user, act_again=again)
    return forms.return_to_page(given, "/admin?done=released")


@router.post("/mode")
def set_mode(
    request: Request, given: Context, who: AdminWriter, body: Body, tx: Writing
) -> Response:
    fields = forms.parse_form(request, body)
    wanted, partition = forms.get_field(fields, "mode"), forms.get_field(fields, "partition")
    if wanted not in set(Mode) or len(partition) > 64:  # noqa: PLR2004 - as the API has it
        raise InputError(
            f"choose a mode of {', '.join(Mode)}, and a partition of at most 64 characters"
        )
    now = given.clock()
    if "unset" in fields:
        modes.unset_mode(tx, given.cluster_id, partition, now=now, actor=who.user)
        return forms.return_to_page(given, "/admin?done=unmode#modes")
    modes.check_partition(tx, given.cluster_id, partition)
    modes.set_mode(tx, given.cluster_id, Mode(wanted), partition, now=now, actor=who.user)
    return forms.return_to_page(given, "/admin?done=mode#modes")


@router.post("/limits/{name}")
def set_limit(
    name: str, request: Request, given: Context, who: AdminWriter, body: Body, tx: Writing
) -> Response:
    fields = forms.parse_form(request, body)
    value = None if "unset" in fields else _parse_number(name, forms.get_field(fields, "value"))
    limit_overrides.set_limit_override(
        tx, given.cluster_id, name, value, now=given.clock(), actor=who.user
    )
    return forms.return_to_page(
        given, f"/admin?done={'limit' if value is not None else 'unlimit'}#limits"
    )


def _parse_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, not {text!r}") from None


def _format_limit(name: str, value: float) -> str:
    return ("yes" if value else "no") if ADJUSTABLE_LIMITS[name].flag else f"{value:g}"


def _list_pulled(look: PageContext) -> list[PulledSwitch]:
    return list(kill_switch.list_pulls(look.tx, look.cluster_id))


def _list_ways(look: PageContext) -> list[tuple[Way, PulledSwitch | None, str]]:
    """List each way to pull the switch, who pulled it that way, and how to release it."""
    by = {each.way: each for each in _list_pulled(look)}
    return [(way, by.get(way.value), RELEASED_BY[way]) for way in Way]
