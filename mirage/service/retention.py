"""Deletes old data that would otherwise grow without end; the worker runs this every hour."""

from dataclasses import dataclass

import structlog

from mirage.chains import chain_ownership, link_sync, request_enforcement, returned_links
from mirage.database.access import idempotency
from mirage.database.schema import pruning
from mirage.database.schema.engine import Store
from mirage.database.schema.pruning import EventFilter
from mirage.domain.decision import Action
from mirage.domain.time_units import DAY_S

_log = structlog.get_logger(__name__)

BATCH = 5000
"""The most rows of each kind that are deleted in an hour.

SQLite's only writer is blocked for a moment. 120,000 rows a day are more than users can cause
(`web.identity.quotas`).
"""

_REQUESTED = "asked: "
"""The beginning of the audit's events for requests of owners."""
ROUTINE = EventFilter(
    words=(
        *(chain_ownership.REGISTERED, "registered again", "adopted", "at risk"),
        *(link_sync.REPLACED, "begins anew", "requeued", "notice given up"),
        returned_links.GAVE_BACK,
        *(link_sync.HOLD_GONE, link_sync.TAKEN_UP, link_sync.FORGOTTEN, link_sync.RELEASED),
        *(order.value for order in request_enforcement.Order),
    ),
    beginnings=(
        *(_REQUESTED, "chain ", "reconciled "),
        *(f"{action}: " for action in Action),
        *(f"{order}: " for order in request_enforcement.Order),
    ),
    owner_beginning=_REQUESTED,
)
"""The audit's events of a chain's ordinary life.

All other events are kept longer: changes by admins, tokens and sessions, refused requests, marks on
the jobs of others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention times in days, as configured ([retention], mirage/config/settings.py)."""

    audit_days: int = 180
    audit_admin_days: int = 1095
    empty_chains_days: int = 7
    """For chains of which Slurm has never shown a job."""


def prune_expired(store: Store, cluster_id: int, now: int, retention: Retention) -> None:
    """Delete expired rows; called once an hour. Each kind has its own, short transaction."""
    with store.begin() as tx:
        idempotency.forget_expired_keys(tx, now)
    with store.begin() as tx:
        before = now - retention.empty_chains_days * DAY_S
        empty = pruning.prune_empty_chains(tx, cluster_id, before, BATCH)
    with store.begin() as tx:
        before = now - retention.audit_days * DAY_S
        rows = pruning.prune_audit(tx, cluster_id, before, BATCH, events=ROUTINE)
    with store.begin() as tx:
        before = now - max(retention.audit_days, retention.audit_admin_days) * DAY_S
        rows += pruning.prune_audit(tx, cluster_id, before, BATCH)
    with store.begin() as tx:
        before = now - retention.audit_days * DAY_S
        runs = pruning.prune_learning_runs(tx, cluster_id, before, BATCH)
    if empty or rows or runs:
        _log.info(
            "expired rows were deleted",
            chains_without_links=empty,
            rows_of_the_audit=rows,
            runs_of_learning=runs,
        )
