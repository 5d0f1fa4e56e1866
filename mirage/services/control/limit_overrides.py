"""The limits of services/limits.py as an admin has them: the configuration's, or set by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.errors import InputError, NotFound
from mirage.services.control.limits import Limits
from mirage.store.database.engine import Transaction
from mirage.store.events import audit
from mirage.store.events.audit import AuditEntry
from mirage.store.operations import admin_overrides
from mirage.store.operations.admin_overrides import LimitOverride

_HOUR_S = 3600.0
_MOST = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """One limit: where `Limits` has it, and what it may be."""

    field: str
    per: float = 1.0
    """What `Limits` counts in one of its unit."""
    least: float = 0.0
    most: float = _MOST
    whole: bool = False
    flag: bool = False
    """No or yes: 0 or 1."""

    def of(self, limits: Limits) -> float:
        return float(getattr(limits, self.field)) / self.per

    def into(self, limits: Limits, value: float) -> Limits:
        kind = type(getattr(limits, self.field))
        return replace(limits, **{self.field: kind(value * self.per)})


CAPS: Mapping[str, Cap] = {
    "max_touches": Cap(field="max_touches", least=1, whole=True),
    "max_chains_per_user": Cap(field="max_chains_per_user", least=1, whole=True),
    "account_overlap_node_h": Cap(field="account_overlap_node_h"),
    "cluster_overlap_node_h": Cap(field="cluster_overlap_node_h"),
    "max_lead_h": Cap(field="max_lead_s", per=_HOUR_S),
    "min_gain_s": Cap(field="min_gain_s", whole=True),
    "replan_gain": Cap(field="replan_gain_h"),
    "allow_pin": Cap(field="allow_pin", most=1, whole=True, flag=True),
    "demote_after": Cap(field="demote_after", least=1, whole=True),
    "demote_error_h": Cap(field="demote_error_s", per=_HOUR_S, least=0.01),
}
"""By the configuration's name below [provision]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the configuration says of a limit."""

    unit: str
    meaning: str
    origin: str
    """`default` or `configuration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A limit with who set it."""

    name: str
    value: float
    configured: float
    """What is in force without the one set by hand."""
    told: Told
    set_by: str | None
    """None: the configuration."""
    set_at: int | None


UNTOLD = Told(unit="", meaning="", origin="default")


def in_force(tx: Transaction, cluster_id: int, configured: Limits) -> Limits:
    """What a tick goes by."""
    limits = configured
    for name, hand in admin_overrides.list_limit_overrides(tx, cluster_id).items():
        if name in CAPS:
            limits = CAPS[name].into(limits, hand.value)
    return limits


def listed(
    tx: Transaction, cluster_id: int, configured: Limits, told: Mapping[str, Told]
) -> Sequence[InForce]:
    by_hand = admin_overrides.list_limit_overrides(tx, cluster_id)
    return [
        _in_force(name, cap.of(configured), told.get(name, UNTOLD), by_hand.get(name))
        for name, cap in CAPS.items()
    ]


def _in_force(name: str, configured: float, told: Told, hand: LimitOverride | None) -> InForce:
    return InForce(
        name=name,
        value=configured if hand is None else hand.value,
        configured=configured,
        told=told,
        set_by=None if hand is None else hand.by,
        set_at=None if hand is None else hand.at,
    )


def set_cap(
    tx: Transaction, cluster_id: int, name: str, value: float | None, *, now: int, actor: str
) -> None:
    """In force from the next tick on; None: the configuration's again.

    Raises NotFound for no limit, InputError for a value that it cannot have.
    """
    cap = CAPS.get(name)
    if cap is None:
        raise NotFound(f"there is no limit {name}: there are {', '.join(CAPS)}")
    before = admin_overrides.list_limit_overrides(tx, cluster_id).get(name)
    if value is None:
        admin_overrides.unset_limit_override(tx, cluster_id, name)
    else:
        _check(name, cap, value)
        admin_overrides.set_limit_override(
            tx, cluster_id, name, LimitOverride(value=value, by=actor, at=now)
        )
    detail = {"limit": name, "value": value, "before": None if before is None else before.value}
    audit.write_entry(
        tx, cluster_id, AuditEntry(at=now, actor=actor, event="limit set", detail=detail)
    )


def _check(name: str, cap: Cap, value: float) -> None:
    if not cap.least <= value <= cap.most:
        raise InputError(f"{name} is from {cap.least:g} to {cap.most:g}, not {value:g}")
    if cap.whole and value != int(value):
        raise InputError(f"{name} is a whole number, not {value:g}")
