"""Reads the last shadow report as its reader may see it. The report never names a user."""

from mirage.domain.access.caller import JOBS, PARTITIONS, USAGE, Principal
from mirage.store.database.engine import Transaction
from mirage.store.operations import reports
from mirage.store.operations.reports import StoredReport

HEAVIEST = "heaviest user"
"""The user class of one person, whose usage the cluster may hide."""


def read_shadow_report(tx: Transaction, cluster_id: int, reader: Principal) -> StoredReport | None:
    """Return the last shadow report without what is hidden from `reader`; None: there is none."""
    found = reports.find_last_report(tx, cluster_id, reports.SHADOW)
    if found is None:
        return None
    document = dict(found.document)
    hidden: set[str] = set()
    if not reader.can_see(PARTITIONS):
        hidden |= {"partition", "pair"}
        document["pairs"] = []
    if not reader.can_see(JOBS, USAGE):
        hidden |= {"user", "pair"}
        document["pairs"] = [p for p in document["pairs"] if p["user_class"] != HEAVIEST]
    document["groups"] = [g for g in document["groups"] if g["by"] not in hidden]
    return StoredReport(found.at, document)
