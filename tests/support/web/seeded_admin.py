"""Stores what a worker records about itself: its last tick, its lease, the cost of Slurm calls."""

from mirage.config.settings import Settings
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters, telemetry
from mirage.database.operations.telemetry import CallCounts, WorkerTick
from mirage.database.schema.engine import Transaction
from mirage.provision.control.limit_overrides import LimitDescription
from mirage.service.wiring import describe_limits

HOUR, DAY_H = 3600, 24
HOLDER = "head:4711"
COMMANDS = {"squeue": (60, 0.05), "sinfo": (30, 0.03), "sacct": (12, 0.4), "scontrol": (3, 0.02)}
"""By command: calls an hour, and seconds each."""


def seed_admin(tx: Transaction, cluster_id: int, looked_at: int) -> None:
    tick = WorkerTick(
        at=looked_at, took_s=0.42, good_at=looked_at, holder=HOLDER, error="", version="0.1.0"
    )
    telemetry.record_tick(tx, cluster_id, tick)
    clusters.take_lease(tx, cluster_id, HOLDER, now=looked_at, ttl_s=180)
    for hour in range(DAY_H):
        at = looked_at - hour * HOUR
        counts = {
            name: CallCounts(calls=calls, failures=int(hour == 3), seconds=calls * seconds)
            for name, (calls, seconds) in COMMANDS.items()
        }
        telemetry.add_calls(tx, cluster_id, at, counts)
    for n in reversed(range(60)):
        detail = {"limit": "max_touches", "value": n, "before": None}
        entry = AuditEntry(at=looked_at - n * HOUR, actor="root", event="limit set", detail=detail)
        audit.write_entry(tx, cluster_id, entry)


def describe_default_limits() -> dict[str, LimitDescription]:
    """Describe the limits of a service without a configuration."""
    return describe_limits(Settings())
