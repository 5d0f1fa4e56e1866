"""Stores the last report of each kind, as its JSON document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import reports
from mirage.database.schema.upsert import put_row

SHADOW = "shadow"
DEMOTIONS = "demotions"
"""The demotions that `provision.control.demotions` found at the last tick."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    at: int
    """When the report was made."""
    document: Mapping[str, Any]


def put_report(
    tx: Transaction, cluster_id: int, kind: str, document: Mapping[str, Any], *, at: int
) -> None:
    """Store the report in place of the one before."""
    values = {"cluster_id": cluster_id, "kind": kind, "at": at, "document": dict(document)}
    put_row(tx, reports, values, key=["cluster_id", "kind"])
    changes.record_change(tx, cluster_id, Topic.QUEUE)


def find_last_report(tx: Transaction, cluster_id: int, kind: str) -> StoredReport | None:
    query = select(reports.c.at, reports.c.document)
    row = tx.execute(
        query.where(reports.c.cluster_id == cluster_id, reports.c.kind == kind)
    ).first()
    return None if row is None else StoredReport(row.at, row.document)
