"""Turns the results of the admin services into the API's answers."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

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
            way=Way(each.way),
            by=each.by,
            at=to_instant(each.at),
            stopped=list(each.stopped),
            released_by=RELEASED_BY[Way(each.way)],
        )
        for each in pulled
    ]
    return schemas.KillSwitch(
        pulled=bool(ways), ways=ways, file=None if file is None else str(file)
    )


def serialize_limit(found: EffectiveLimit) -> schemas.LimitView:
    return schemas.LimitView(
        name=found.name,
        value=found.value,
        unit=found.description.unit,
        meaning=found.description.meaning,
        set_by=found.set_by or found.description.origin,
        set_at=to_optional_instant(found.set_at),
        configured=found.configured,
    )


def serialize_model_line(line: ModelVersion) -> schemas.ModelLine:
    return schemas.ModelLine(**asdict(line))


def serialize_model(found: ModelDetail) -> schemas.ModelView:
    return schemas.ModelView(
        **asdict(found.line),
        card=dict(found.card),
        promotions=[dict(record) for record in found.promotions],
    )


def serialize_evidence(found: PromotionReview) -> schemas.Evidence:
    return schemas.Evidence(**found.build_evidence(), forced=found.forced)


def serialize_polling(found: PollingCost, counted: RpcUsage | None) -> schemas.PollingView:
    return schemas.PollingView(
        since=to_instant(found.since),
        until=to_instant(found.until),
        total=_serialize_cost(found.total),
        commands=[_serialize_cost(cost) for cost in found.commands],
        hours=[schemas.HourView(at=to_instant(at), calls=calls) for at, calls in found.hours],
        slurmctld=None if counted is None else schemas.SlurmctldView.model_validate(counted),
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


def serialize_status(found: ServiceStatus, now: int) -> schemas.StatusView:
    lease = None
    if found.lease_holder is not None and found.lease_until is not None:
        lease = schemas.LeaseView(
            holder=found.lease_holder,
            until=to_instant(found.lease_until),
            expired=found.lease_until <= now,
        )
    return schemas.StatusView(
        tick=None if found.tick is None else _serialize_tick(found.tick, now),
        lease=lease,
        database_bytes=found.database_bytes,
        schema_version=found.schema,
        schema_known=found.schema_known,
        versions=dict(found.versions),
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
