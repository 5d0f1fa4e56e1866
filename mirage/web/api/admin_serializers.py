"""Turns the results of the admin services into the API's answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mirage.database.operations.admin_overrides import PulledSwitch
from mirage.database.operations.telemetry import WorkerTick
from mirage.judging.model_promotion import PromotionReview
from mirage.policies.model_catalog import ModelDetail, ModelVersion
from mirage.provision.control.kill_switch import RELEASED_BY, Way
from mirage.provision.control.limit_overrides import EffectiveLimit
from mirage.reports.service_status import CallCost, PollingCost, ServiceStatus
from mirage.reports.slurmctld_load import RpcUsage
from mirage.web.api.schemas import admin_schemas as schemas
from mirage.web.shared.dependencies import to_instant, to_optional_instant


def serialize_kill_switch(pulled: Sequence[PulledSwitch], file: Path | None) -> schemas.KillSwitch:
    ways = [
        schemas.PulledView(
            way=Way(switch.way),
            by=switch.by,
            at=to_instant(switch.at),
            stopped=list(switch.stopped),
            released_by=RELEASED_BY[Way(switch.way)],
        )
        for switch in pulled
    ]
    return schemas.KillSwitch(
        pulled=bool(ways), ways=ways, file=None if file is None else str(file)
    )


def serialize_limit(limit: EffectiveLimit) -> schemas.LimitView:
    return schemas.LimitView(
        name=limit.name,
        value=limit.value,
        unit=limit.description.unit,
        meaning=limit.description.meaning,
        set_by=limit.set_by or limit.description.origin,
        set_at=to_optional_instant(limit.set_at),
        configured=limit.configured,
    )


def serialize_model_line(line: ModelVersion) -> schemas.ModelLine:
    return schemas.ModelLine(**_list_line_fields(line))


def serialize_model(model: ModelDetail) -> schemas.ModelView:
    return schemas.ModelView(
        **_list_line_fields(model.line),
        card=dict(model.card),
        promotions=[dict(record) for record in model.promotions],
    )


def _list_line_fields(line: ModelVersion) -> dict[str, Any]:
    return {name: getattr(line, name) for name in schemas.ModelLine.model_fields}


def serialize_evidence(review: PromotionReview) -> schemas.Evidence:
    return schemas.Evidence(**review.build_evidence(), forced=review.forced)


def serialize_polling(polling: PollingCost, rpc_usage: RpcUsage | None) -> schemas.PollingView:
    return schemas.PollingView(
        since=to_instant(polling.since),
        until=to_instant(polling.until),
        total=_serialize_cost(polling.total),
        commands=[_serialize_cost(cost) for cost in polling.commands],
        hours=[schemas.HourView(at=to_instant(at), calls=calls) for at, calls in polling.hours],
        slurmctld=None if rpc_usage is None else schemas.SlurmctldView.model_validate(rpc_usage),
    )


def _serialize_cost(cost: CallCost) -> schemas.CostView:
    return schemas.CostView(
        command=cost.command,
        calls=cost.calls,
        failures=cost.failures,
        seconds=cost.seconds,
        unread_rows=cost.unread,
        calls_a_minute=cost.a_minute,
    )


def serialize_status(status: ServiceStatus, now: int) -> schemas.StatusView:
    lease = None
    if status.lease_holder is not None and status.lease_until is not None:
        lease = schemas.LeaseView(
            holder=status.lease_holder,
            until=to_instant(status.lease_until),
            expired=status.lease_until <= now,
        )
    return schemas.StatusView(
        tick=None if status.tick is None else _serialize_tick(status.tick, now),
        lease=lease,
        database_bytes=status.database_bytes,
        schema_version=status.schema,
        schema_known=status.schema_known,
        versions=dict(status.versions),
    )


def _serialize_tick(tick: WorkerTick, now: int) -> schemas.TickView:
    return schemas.TickView(
        at=to_instant(tick.at),
        age_s=max(0, now - tick.at),
        took_s=tick.took_s,
        good_at=to_optional_instant(tick.good_at),
        worker=tick.holder,
        error=tick.error,
        version=tick.version,
    )
