"""How far Mirage goes."""

from mirage.domain.decision import Mode
from mirage.errors import IllegalTransition
from mirage.services import killswitch
from mirage.store import audit, clusters
from mirage.store.audit import AuditEntry
from mirage.store.engine import Transaction

MEANS = {
    Mode.OBSERVE: "look at the cluster and forecast; decide nothing",
    Mode.SHADOW: "decide, and write down what would be done; touch nothing",
    Mode.ACT: "decide, and move standbys in Slurm",
}


def set_mode(
    tx: Transaction, cluster_id: int, mode: Mode, partition: str, *, now: int, actor: str
) -> None:
    """Set the mode of a partition, or of the cluster ("").

    Raises IllegalTransition for `act` while the kill switch is pulled.
    """
    pulled = killswitch.pulled(tx, cluster_id)
    if mode is Mode.ACT and pulled:
        raise IllegalTransition(killswitch.says(pulled))
    clusters.set_mode(tx, cluster_id, mode, partition)
    detail = {"mode": mode.value, "partition": partition}
    audit.write(tx, cluster_id, AuditEntry(at=now, actor=actor, event="mode set", detail=detail))
