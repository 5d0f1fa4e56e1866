"""Stores for a day which requests were done under an Idempotency-Key: a digest of each, no more.

Also, until they expire, which credentials of MUNGE and SACK were accepted: each counts once.
"""

from sqlalchemy import ColumnElement, and_, delete, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import idempotency_keys as table
from mirage.database.schema.upsert import build_insert, put_row_if_absent

KEEP_S = 86400
_CREDENTIAL = "munge:"
"""Stands before the digest of a credential, whose `at` is the last second in which it is
remembered. Before a key stands its cluster's number."""
MOST_KEYS_PER_USER = 100
"""The most keys of one user, some 30 KB. A new key replaces the oldest. A repeat comes within
minutes, and a wrapped sbatch in a loop uses one key for each chain."""


def find_fingerprint(
    tx: Transaction, cluster_id: int, uid: int, key: str, *, now: int
) -> str | None:
    """Return the digest of the request for which the key was used; None: it was not used."""
    query = select(table.c.fingerprint)
    stored = _build_stored_key(cluster_id, key)
    query = query.where(table.c.uid == uid, table.c.key == stored, table.c.at > now - KEEP_S)
    fingerprint = tx.scalar(query)
    return None if fingerprint is None else str(fingerprint)


def claim_key(
    tx: Transaction, cluster_id: int, uid: int, key: str, *, fingerprint: str, now: int
) -> bool:
    """Claim the key for this request; return whether it was free.

    This waits for a transaction under way that has claimed the key. False: the key was used for a
    request that was done, of which `find_fingerprint` returns the digest.
    """
    key = _build_stored_key(cluster_id, key)
    _drop_surplus_keys(tx, cluster_id, uid, key, now)
    values = {"uid": uid, "key": key, "fingerprint": fingerprint, "at": now}
    statement = build_insert(tx, table).values(**values)
    claim = statement.on_conflict_do_nothing(index_elements=["uid", "key"]).returning(table.c.key)
    return tx.execute(claim).first() is not None


def _build_stored_key(cluster_id: int, key: str) -> str:
    """Return the key as the database has it: one key is two at two clusters of one database."""
    return f"{cluster_id}:{key}"


def _drop_surplus_keys(tx: Transaction, cluster_id: int, uid: int, key: str, now: int) -> None:
    """Delete the user's expired keys at this cluster and all but the newest of the others.

    `key` itself stays unless it has expired.
    """
    at_cluster = table.c.key.startswith(_build_stored_key(cluster_id, ""))
    is_own_row, is_open = and_(table.c.uid == uid, at_cluster), table.c.at > now - KEEP_S
    newest = (
        select(table.c.key)
        .where(is_own_row, is_open, table.c.key != key)
        .order_by(table.c.at.desc(), table.c.key)
        .limit(MOST_KEYS_PER_USER - 1)
    )
    is_surplus = or_(~is_open, and_(table.c.key != key, table.c.key.not_in(newest)))
    # Skip rows that another transaction has locked: waiting for them can deadlock.
    surplus_keys = (
        select(table.c.key).where(is_own_row, is_surplus).with_for_update(skip_locked=True)
    )
    tx.execute(delete(table).where(is_own_row, table.c.key.in_(surplus_keys)))


def claim_credential(tx: Transaction, uid: int, digest: str, *, kept_until: int, now: int) -> bool:
    """Return whether no service of this database has accepted the user's credential before.

    `kept_until`: the last second (epoch) in which the credential is remembered. The caller bounds
    how many of one user are remembered at once.
    """
    is_expired = (table.c.uid == uid, _is_used_up(now))
    expired_keys = select(table.c.key).where(*is_expired).with_for_update(skip_locked=True)
    tx.execute(delete(table).where(table.c.uid == uid, table.c.key.in_(expired_keys)))
    values = {"uid": uid, "key": _CREDENTIAL + digest, "fingerprint": "", "at": kept_until}
    return put_row_if_absent(tx, table, values, key=["uid", "key"])


def _is_used_up(now: int) -> ColumnElement[bool]:
    return and_(table.c.key.startswith(_CREDENTIAL), table.c.at < now)


def forget_expired_keys(tx: Transaction, now: int) -> None:
    """Delete the expired keys and credentials of all users."""
    tx.execute(delete(table).where(or_(table.c.at <= now - KEEP_S, _is_used_up(now))))
