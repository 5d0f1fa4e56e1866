"""Sets how far Mirage goes: it observes, decides in shadow, or acts."""

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.jobs import queue_summary
from mirage.database.operations import clusters
from mirage.database.schema.engine import Transaction
from mirage.domain.decision import Mode
from mirage.errors import IllegalTransition, InputError
from mirage.provision.control import kill_switch

MEANS = {
    Mode.OBSERVE: "look at the cluster and forecast; decide nothing",
    Mode.SHADOW: "decide, and record what would be done; change nothing in Slurm",
    Mode.ACT: "decide, and move standbys in Slurm",
}


def set_mode(
    tx: Transaction, cluster_id: int, mode: Mode, partition: str, *, now: int, actor: str
) -> None:
    """Set the mode of a partition, or of the cluster ("").

    Raises IllegalTransition for `act` while the kill switch is pulled.
    """
    pulls = kill_switch.list_pulls(tx, cluster_id)
    if mode is Mode.ACT and pulls:
        raise IllegalTransition(kill_switch.explain_pulls(pulls))
    clusters.set_mode(tx, cluster_id, mode, partition)
    detail = {"mode": mode.value, "partition": partition}
    audit.write_entry(
        tx, cluster_id, AuditEntry(at=now, actor=actor, event="mode set", detail=detail)
    )


def unset_mode(tx: Transaction, cluster_id: int, partition: str, *, now: int, actor: str) -> None:
    """Remove a partition's own mode: from now on the cluster's mode counts there.

    Doing it again changes nothing. Raises InputError for the cluster itself, which always has a
    mode.
    """
    if not partition:
        raise InputError("the cluster itself always has a mode: name a partition")
    if clusters.unset_mode(tx, cluster_id, partition):
        detail = {"partition": partition}
        entry = AuditEntry(at=now, actor=actor, event="mode unset", detail=detail)
        audit.write_entry(tx, cluster_id, entry)


def check_partition(tx: Transaction, cluster_id: int, partition: str) -> None:
    """Raise InputError for a partition that is probably misspelt.

    That is one that neither nodes, jobs nor modes name, while other partitions are known.
    """
    summary = queue_summary.find_summary(tx, cluster_id)
    partitions: set[str] = set()
    if summary is not None:
        partitions = {row.partition for row in summary.queue}
        partitions |= {row.partition for row in summary.nodes}
    if (
        partitions
        and partition
        and partition not in partitions | set(clusters.list_modes(tx, cluster_id))
    ):
        raise InputError(
            f"partition {partition} has neither nodes nor jobs; name one of these: "
            f"{', '.join(sorted(partitions - {''}))}. "
            "(`mirage mode` sets the mode of a partition that has none yet.)"
        )
