"""Stores who did what, and what Mirage found and did. Nothing here changes or deletes an entry.

mirage/database/schema/pruning.py deletes old rows. The audit is for people: nothing that Mirage
does depends on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, insert, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import audit
from mirage.database.schema.time_filter import filter_within
from mirage.domain.chain import ChainId
from mirage.domain.job import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    at: int
    actor: str
    """The name of the user who acted, or `mirage`."""
    event: str
    chain_id: ChainId | None = None
    job_id: JobId | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    """The entry's number, which the database assigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A choice of entries; None does not filter."""

    actor: str | None = None
    since: int | None = None
    until: int | None = None


_VIA = "mirage_audit_via"


def set_audit_credential(tx: Transaction, via: str) -> None:
    """Record in every entry of this transaction by which credential the actor was identified."""
    tx.execution_options(**{_VIA: via})


def write_entry(tx: Transaction, cluster_id: int, entry: AuditEntry) -> int:
    via = tx.get_execution_options().get(_VIA)
    values = {
        "cluster_id": cluster_id,
        "at": entry.at,
        "actor": entry.actor,
        "event": entry.event,
        "chain_id": entry.chain_id,
        "job_id": entry.job_id,
        "detail": dict(entry.detail) | ({} if via is None else {"via": via}),
    }
    return int(tx.execute(insert(audit).values(**values).returning(audit.c.id)).scalar_one())


def list_entries(  # noqa: PLR0913 - filters
    tx: Transaction,
    cluster_id: int,
    *,
    chain_id: ChainId | None = None,
    event: str | None = None,
    after: int | None = None,
    limit: int = 100,
    where: AuditFilter | None = None,
) -> list[AuditEntry]:
    """List entries, newest first. `after` is the id of the last entry of the page before."""
    criteria = where or AuditFilter()
    equal: dict[str, object] = {"cluster_id": cluster_id, "chain_id": chain_id, "event": event}
    equal |= {"actor": criteria.actor}
    query = select(audit).where(
        *(audit.c[n] == v for n, v in equal.items() if v is not None),
        *filter_within(audit.c.at, criteria),
    )
    if after is not None:
        query = query.where(audit.c.id < after)
    return [_build_entry(row) for row in tx.execute(query.order_by(audit.c.id.desc()).limit(limit))]


def list_chain_entries(
    tx: Transaction, cluster_id: int, chain_ids: Collection[ChainId], event: str
) -> list[AuditEntry]:
    """List all entries of this event about these chains, newest first."""
    query = select(audit).where(
        audit.c.cluster_id == cluster_id,
        audit.c.chain_id.in_(set(chain_ids)),
        audit.c.event == event,
    )
    return [_build_entry(row) for row in tx.execute(query.order_by(audit.c.id.desc()))]


def _build_entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        actor=row.actor,
        event=row.event,
        chain_id=None if row.chain_id is None else ChainId(row.chain_id),
        job_id=None if row.job_id is None else JobId(row.job_id),
        detail=row.detail,
    )
