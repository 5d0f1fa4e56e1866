"""Reads the last shadow report as its reader may see it. The report never names a user."""

from mirage.database.operations import reports
from mirage.database.operations.reports import StoredReport
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, PARTITIONS, USAGE, Principal

HEAVIEST = "heaviest user"
"""The user class of one person, whose usage the cluster may hide."""


def read_shadow_report(tx: Transaction, cluster_id: int, reader: Principal) -> StoredReport | None:
    """Return the last shadow report without what is hidden from `reader`; None: there is none."""
    report = reports.find_last_report(tx, cluster_id, reports.SHADOW)
    if report is None:
        return None
    document = dict(report.document)
    hidden: set[str] = set()
    if not reader.can_see(PARTITIONS):
        hidden |= {"partition", "pair"}
        document["pairs"] = []
    if not reader.can_see(JOBS, USAGE):
        hidden |= {"user", "pair"}
        document["pairs"] = [p for p in document["pairs"] if p["user_class"] != HEAVIEST]
    document["groups"] = [g for g in document["groups"] if g["by"] not in hidden]
    return StoredReport(report.at, document)
