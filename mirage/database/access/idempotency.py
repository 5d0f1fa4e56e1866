"""Stores for a day which requests were done under an Idempotency-Key: a digest of each, no more.

Also, for two hours, which MUNGE credentials were accepted: each counts once.
"""

from sqlalchemy import and_, delete, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import idempotency_keys as table
from mirage.database.schema.upsert import build_insert, put_row_if_absent

KEEP_S = 86400
CREDENTIAL_S = 2 * 3600
"""Twice the longest life that munged gives a credential (munge(1), --ttl)."""
_CREDENTIAL = "munge:"
"""Before the digest of a credential; before a key stands its cluster's number."""
OF_ONE = 100
"""The most keys of one user, some 30 KB. A new key replaces the oldest. A repeat comes within
minutes, and a wrapped sbatch in a loop uses one key for each chain."""


def find_fingerprint(
    tx: Transaction, cluster_id: int, uid: int, key: str, *, now: int
) -> str | None:
    """Return the digest of the request for which the key was used; None: it was not used."""
    query = select(table.c.fingerprint)
    stored = _build_stored_key(cluster_id, key)
    query = query.where(table.c.uid == uid, table.c.key == stored, table.c.at > now - KEEP_S)
    found = tx.scalar(query)
    return None if found is None else str(found)


def claim_key(
    tx: Transaction, cluster_id: int, uid: int, key: str, *, fingerprint: str, now: int
) -> bool:
    """The key stands for this request from now on.

    Whoever has claimed it in a transaction under way is waited for. False: it stands for one that
    was done; `find_fingerprint` tells for which.
    """
    key = _build_stored_key(cluster_id, key)
    _drop_surplus_keys(tx, cluster_id, uid, key, now)
    values = {"uid": uid, "key": key, "fingerprint": fingerprint, "at": now}
    statement = build_insert(tx, table).values(**values)
    stored = statement.on_conflict_do_nothing(index_elements=["uid", "key"]).returning(table.c.key)
    return tx.execute(stored).first() is not None


def _build_stored_key(cluster_id: int, key: str) -> str:
    """Return the key as the database has it: one key is two at two clusters of one database."""
    return f"{cluster_id}:{key}"


def _drop_surplus_keys(tx: Transaction, cluster_id: int, uid: int, key: str, now: int) -> None:
    """Delete the user's expired keys at this cluster and all but the newest of the others.

    `key` itself stays unless it has expired.
    """
    here = table.c.key.startswith(_build_stored_key(cluster_id, ""))
    theirs, is_open = and_(table.c.uid == uid, here), table.c.at > now - KEEP_S
    newest = (
        select(table.c.key)
        .where(theirs, is_open, table.c.key != key)
        .order_by(table.c.at.desc(), table.c.key)
        .limit(OF_ONE - 1)
    )
    goes = or_(~is_open, and_(table.c.key != key, table.c.key.not_in(newest)))
    # What another transaction takes away just now is not waited for: two would wait in a circle.
    gone = select(table.c.key).where(theirs, goes).with_for_update(skip_locked=True)
    tx.execute(delete(table).where(theirs, table.c.key.in_(gone)))


def claim_credential(tx: Transaction, uid: int, digest: str, now: int) -> bool:
    """Return whether no service of this database has accepted the user's credential before."""
    old = (
        table.c.uid == uid,
        table.c.key.startswith(_CREDENTIAL),
        table.c.at <= now - CREDENTIAL_S,
    )
    gone = select(table.c.key).where(*old).with_for_update(skip_locked=True)
    tx.execute(delete(table).where(table.c.uid == uid, table.c.key.in_(gone)))
    values = {"uid": uid, "key": _CREDENTIAL + digest, "fingerprint": "", "at": now}
    return put_row_if_absent(tx, table, values, key=["uid", "key"])


def forget_expired_keys(tx: Transaction, now: int) -> None:
    """Delete the expired keys of all users."""
    tx.execute(delete(table).where(table.c.at <= now - KEEP_S))
