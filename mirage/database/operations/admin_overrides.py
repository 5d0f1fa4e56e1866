"""Stores pulled kill switches, and the limits that an admin has set."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, select

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import kill_switches, limits
from mirage.database.schema.upsert import put_row, put_row_if_absent

_SELECT_PULLED = (
    select(kill_switches)
    .where(kill_switches.c.cluster_id == bindparam("cluster_id"))
    .order_by(kill_switches.c.pulled_at, kill_switches.c.way)
)
_SELECT_LIMITS = select(limits).where(limits.c.cluster_id == bindparam("cluster_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledSwitch:
    """One way by which the kill switch is pulled."""

    way: str
    by: str
    at: int
    stopped: tuple[str, ...]
    """Partitions that were in mode act until then; "" is the whole cluster."""


def list_pulled_switches(tx: Transaction, cluster_id: int) -> list[PulledSwitch]:
    """List the pulled kill switches, earliest first."""
    rows = tx.execute(_SELECT_PULLED, {"cluster_id": cluster_id})
    return [
        PulledSwitch(way=row.way, by=row.pulled_by, at=row.pulled_at, stopped=tuple(row.stopped))
        for row in rows
    ]


def pull_switch(tx: Transaction, cluster_id: int, switch: PulledSwitch) -> None:
    """Record a pulled kill switch. The first to pull it in this way stays recorded."""
    values = {
        "cluster_id": cluster_id,
        "way": switch.way,
        "pulled_by": switch.by,
        "pulled_at": switch.at,
        "stopped": list(switch.stopped),
    }
    if put_row_if_absent(tx, kill_switches, values, key=["cluster_id", "way"]):
        changes.record_change(tx, cluster_id, Topic.MODE)


def release_switches(tx: Transaction, cluster_id: int, ways: Iterable[str]) -> None:
    of_cluster = kill_switches.c.cluster_id == cluster_id
    tx.execute(delete(kill_switches).where(of_cluster, kill_switches.c.way.in_(list(ways))))
    changes.record_change(tx, cluster_id, Topic.MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOverride:
    """The value that an admin set for a limit, in place of the configuration's."""

    value: float
    by: str
    at: int


def list_limit_overrides(tx: Transaction, cluster_id: int) -> Mapping[str, LimitOverride]:
    """Return the limit overrides, by name."""
    rows = tx.execute(_SELECT_LIMITS, {"cluster_id": cluster_id})
    return {row.name: LimitOverride(value=row.value, by=row.set_by, at=row.set_at) for row in rows}


def set_limit_override(
    tx: Transaction, cluster_id: int, name: str, override: LimitOverride
) -> None:
    values = {
        "cluster_id": cluster_id,
        "name": name,
        "value": override.value,
        "set_by": override.by,
        "set_at": override.at,
    }
    put_row(tx, limits, values, key=["cluster_id", "name"])


def unset_limit_override(tx: Transaction, cluster_id: int, name: str) -> None:
    """Delete the override, so that the configured limit is in force again."""
    tx.execute(delete(limits).where(limits.c.cluster_id == cluster_id, limits.c.name == name))
