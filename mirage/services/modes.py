"""How far Mirage goes, and the kill switch."""

from mirage.domain.decision import Mode
from mirage.store import audit, clusters
from mirage.store.audit import AuditEntry
from mirage.store.engine import Transaction


def set_mode(
    tx: Transaction, cluster_id: int, mode: Mode, partition: str, *, now: int, actor: str
) -> None:
    """Set the mode of a partition, or of the cluster ("")."""
    clusters.set_mode(tx, cluster_id, mode, partition)
    detail = {"mode": mode.value, "partition": partition}
    audit.write(tx, cluster_id, AuditEntry(at=now, actor=actor, event="mode set", detail=detail))


def stop_acting(tx: Transaction, cluster_id: int, *, now: int, actor: str) -> None:
    """The kill switch: whatever acts goes back to shadow. Running jobs are not touched."""
    for partition, mode in clusters.modes(tx, cluster_id).items():
        if mode is Mode.ACT:
            set_mode(tx, cluster_id, Mode.SHADOW, partition, now=now, actor=actor)
