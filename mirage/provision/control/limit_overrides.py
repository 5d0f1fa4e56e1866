"""The limits in force: the configuration's, or those that an admin set while the service runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import admin_overrides
from mirage.database.operations.admin_overrides import LimitOverride
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import MAX_RETURNS
from mirage.domain.time_units import HOUR_S
from mirage.errors import InputError, NotFound
from mirage.provision.control.limits import Limits

_MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """One limit: its field in `Limits`, and the values that it may have."""

    field: str
    per: float = 1.0
    """The value in `Limits` divided by the value that people see (3600: seconds and hours)."""
    least: float = 0.0
    most: float = _MOST
    whole: bool = False
    flag: bool = False
    """Whether the limit is a yes (1) or a no (0)."""

    def get_value(self, limits: Limits) -> float:
        return float(getattr(limits, self.field)) / self.per

    def apply_value(self, limits: Limits, value: float) -> Limits:
        kind = type(getattr(limits, self.field))
        return replace(limits, **{self.field: kind(value * self.per)})


ADJUSTABLE_LIMITS: Mapping[str, LimitSpec] = {
    "max_touches": LimitSpec(field="max_touches", least=1, whole=True),
    "max_returns": LimitSpec(field="max_returns", most=MAX_RETURNS, whole=True),
    "max_chains_per_user": LimitSpec(field="max_chains_per_user", least=1, whole=True),
    "user_overlap_node_h": LimitSpec(field="user_overlap_node_h"),
    "account_overlap_node_h": LimitSpec(field="account_overlap_node_h"),
    "cluster_overlap_node_h": LimitSpec(field="cluster_overlap_node_h"),
    "max_lead_h": LimitSpec(field="max_lead_s", per=HOUR_S),
    "min_gain_s": LimitSpec(field="min_gain_s", whole=True),
    "replan_gain": LimitSpec(field="replan_gain_h"),
    "allow_pin": LimitSpec(field="allow_pin", most=1, whole=True, flag=True),
    "demote_after": LimitSpec(field="demote_after", least=1, whole=True),
    "demote_error_h": LimitSpec(field="demote_error_s", per=HOUR_S, least=0.01),
}
"""The limits by their name in the configuration's [provision]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDescription:
    """A limit as the configuration describes it."""

    unit: str
    meaning: str
    origin: str
    """`default` or `configuration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLimit:
    """A limit in force, and who set it."""

    name: str
    value: float
    configured: float
    """The configuration's value, which counts without the override."""
    description: LimitDescription
    set_by: str | None
    """None: the configuration."""
    set_at: int | None


UNDESCRIBED = LimitDescription(unit="", meaning="", origin="default")


def read_effective_limits(tx: Transaction, cluster_id: int, configured: Limits) -> Limits:
    """Return the limits for a tick: the configuration's, with the admins' overrides."""
    limits = configured
    for name, override in admin_overrides.list_limit_overrides(tx, cluster_id).items():
        # An override of an older release may name a limit that exists no more.
        if name in ADJUSTABLE_LIMITS:
            limits = ADJUSTABLE_LIMITS[name].apply_value(limits, override.value)
    return limits


def list_limits(
    tx: Transaction,
    cluster_id: int,
    configured: Limits,
    descriptions: Mapping[str, LimitDescription],
) -> Sequence[EffectiveLimit]:
    overrides = admin_overrides.list_limit_overrides(tx, cluster_id)
    return [
        _build_effective_limit(
            name,
            spec.get_value(configured),
            descriptions.get(name, UNDESCRIBED),
            overrides.get(name),
        )
        for name, spec in ADJUSTABLE_LIMITS.items()
    ]


def _build_effective_limit(
    name: str, configured: float, description: LimitDescription, override: LimitOverride | None
) -> EffectiveLimit:
    return EffectiveLimit(
        name=name,
        value=configured if override is None else override.value,
        configured=configured,
        description=description,
        set_by=None if override is None else override.by,
        set_at=None if override is None else override.at,
    )


def set_limit_override(
    tx: Transaction, cluster_id: int, name: str, value: float | None, *, now: int, actor: str
) -> None:
    """Override a limit from the next tick on; None removes the override.

    Raises NotFound if there is no such limit, and InputError for a value that the limit cannot
    have.
    """
    spec = ADJUSTABLE_LIMITS.get(name)
    if spec is None:
        raise NotFound(
            f"there is no limit {name}; name one of these: {', '.join(ADJUSTABLE_LIMITS)}"
        )
    before = admin_overrides.list_limit_overrides(tx, cluster_id).get(name)
    if value is None:
        admin_overrides.unset_limit_override(tx, cluster_id, name)
    else:
        _check_value(name, spec, value)
        admin_overrides.set_limit_override(
            tx, cluster_id, name, LimitOverride(value=value, by=actor, at=now)
        )
    detail = {"limit": name, "value": value, "before": None if before is None else before.value}
    audit.write_entry(
        tx, cluster_id, AuditEntry(at=now, actor=actor, event="limit set", detail=detail)
    )


def _check_value(name: str, spec: LimitSpec, value: float) -> None:
    if not spec.least <= value <= spec.most:
        raise InputError(f"{name} must be from {spec.least:g} to {spec.most:g}, not {value:g}")
    if spec.whole and value != int(value):
        raise InputError(f"{name} must be a whole number, not {value:g}")
