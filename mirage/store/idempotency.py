"""Answers kept for a day under the caller's Idempotency-Key, so that a repeat gets the first."""

from dataclasses import dataclass

from sqlalchemy import delete, select, update

from mirage.store.engine import Transaction
from mirage.store.tables import idempotency_keys as table
from mirage.store.upsert import insert

KEEP_S = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    fingerprint: str
    """Of the request: the same key on another request is the caller's error."""
    status: int
    body: str


def find(tx: Transaction, uid: int, key: str, *, now: int) -> Answer | None:
    query = select(table).where(table.c.uid == uid, table.c.key == key, table.c.at > now - KEEP_S)
    row = tx.execute(query).first()
    if row is None:
        return None
    return Answer(fingerprint=row.fingerprint, status=row.status, body=row.body)


def claim(tx: Transaction, uid: int, key: str, *, fingerprint: str, now: int) -> bool:
    """The key stands for this request from now on, whose answer `keep` stores.

    Whoever has claimed it in a transaction under way is waited for. False: it has answered; `find`
    tells what.
    """
    tx.execute(delete(table).where(table.c.at <= now - KEEP_S))
    values = {"fingerprint": fingerprint, "status": 0, "body": "", "at": now}
    statement = insert(tx, table).values(uid=uid, key=key, **values)
    stored = statement.on_conflict_do_nothing(index_elements=["uid", "key"]).returning(table.c.key)
    return tx.execute(stored).first() is not None


def keep(tx: Transaction, uid: int, key: str, answer: Answer) -> None:
    """Under a key that this transaction has claimed."""
    mine = (table.c.uid == uid, table.c.key == key)
    tx.execute(update(table).where(*mine).values(status=answer.status, body=answer.body))
