"""How long is kept what grows without end, and the worker's hourly tidying of it."""

from dataclasses import dataclass

import structlog

from mirage.domain.decision import Action
from mirage.services import links, obey, owners
from mirage.store import forgetting, idempotency, snapshots
from mirage.store.engine import Store
from mirage.store.forgetting import Events

_log = structlog.get_logger(__name__)

_DAY_S = 86400
BATCH = 5000
"""Rows of each kind that go in an hour: SQLite's one writer is held for a moment, and 120,000 a day
are more than anybody may cause (`services.quotas`)."""

_ASKED = "asked: "
ROUTINE = Events(
    words=(
        *(owners.REGISTERED, "registered again", "adopted", "at risk"),
        *(links.REPLACED, "begins anew", "requeued", "notice given up"),
        *(links.HOLD_GONE, links.TAKEN_UP, links.FORGOTTEN, links.RELEASED),
        *(order.value for order in obey.Order),
    ),
    beginnings=(
        *(_ASKED, "chain ", "reconciled "),
        *(f"{action}: " for action in Action),
        *(f"{order}: " for order in obey.Order),
    ),
    of_owners=_ASKED,
)
"""What a chain's life leaves in the audit. All else, known here or not, is kept longer: what admins
did, tokens and sessions, who was refused what, marks on others' jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """As configured ([retention], mirage/settings_quota.py); days."""

    audit_days: int = 180
    audit_admin_days: int = 1095
    empty_chains_days: int = 7


def tidy(store: Store, cluster_id: int, now: int, keep: Retention) -> None:
    """Once an hour. Each kind in a transaction of its own: none waits long for the next."""
    with store.begin() as tx:
        snapshots.thin(tx, cluster_id, now)
    with store.begin() as tx:
        idempotency.forget(tx, now)
    with store.begin() as tx:
        before = now - keep.empty_chains_days * _DAY_S
        empty = forgetting.empty_chains(tx, cluster_id, before, BATCH)
    with store.begin() as tx:
        before = now - keep.audit_days * _DAY_S
        rows = forgetting.audit_rows(tx, cluster_id, before, BATCH, events=ROUTINE)
    with store.begin() as tx:
        before = now - max(keep.audit_days, keep.audit_admin_days) * _DAY_S
        rows += forgetting.audit_rows(tx, cluster_id, before, BATCH)
    if empty or rows:
        _log.info("tidied", chains_without_links=empty, rows_of_the_audit=rows)
