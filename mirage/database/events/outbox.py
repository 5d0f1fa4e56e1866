"""Stores notices that wait to be sent, and the states of chains at the last notices."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import case, delete, func, literal, or_, select, update

from mirage.database.schema import tables
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import notices, situations
from mirage.database.schema.upsert import build_insert, put_rows
from mirage.domain.chain import ChainId, ChainState, LinkState

_OVER = tuple(state.value for state in ChainState if state.is_over)


class NoticeState(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice: one event of one chain for one channel."""

    cluster_id: int
    chain_id: ChainId
    user: str
    channel: str
    event: str
    says: str
    at: int
    tries: int = 0
    id: int = 0
    """The notice's number, which the database assigns."""


@dataclass(frozen=True, slots=True)
class Situation:
    state: ChainState = ChainState.ACTIVE
    at_risk: str = ""
    interrupted: bool = False
    """Whether no link has run for longer than the threshold."""


def list_open_situations(tx: Transaction, cluster_id: int) -> dict[ChainId, Situation]:
    """Return the last stored situation of each chain that was not over then."""
    query = select(situations).where(
        situations.c.cluster_id == cluster_id, situations.c.state.not_in(_OVER)
    )
    return {
        ChainId(row.chain_id): Situation(ChainState(row.state), row.at_risk, row.interrupted)
        for row in tx.execute(query)
    }


def find_idle_since(tx: Transaction, cluster_id: int) -> dict[ChainId, int]:
    """Return since when live chains are idle: the end of the last link of each.

    A chain is idle if its links have run and none runs now.
    """
    links, chains = tables.links, tables.chains
    running = case((links.c.state == LinkState.RUNNING.value, 1), else_=0)
    query = (
        select(links.c.chain_id, func.max(links.c.end).label("last"))
        .join(chains, chains.c.chain_id == links.c.chain_id)
        .where(
            chains.c.cluster_id == cluster_id,
            chains.c.state.not_in(_OVER),
            links.c.start.is_not(None),
        )
        .group_by(links.c.chain_id)
        .having(func.max(running) == 0, func.max(links.c.end).is_not(None))
    )
    return {ChainId(row.chain_id): int(row.last) for row in tx.execute(query)}


def list_unseen_ended_chains(tx: Transaction, cluster_id: int, since: int) -> list[ChainId]:
    """Return chains created since then that are over and have no stored situation."""
    stored = select(situations.c.chain_id).where(situations.c.chain_id == tables.chains.c.chain_id)
    query = select(tables.chains.c.chain_id).where(
        tables.chains.c.cluster_id == cluster_id,
        tables.chains.c.created_at >= since,
        tables.chains.c.state.in_(_OVER),
        ~stored.exists(),
    )
    return [ChainId(row.chain_id) for row in tx.execute(query)]


def save_situations(
    tx: Transaction, cluster_id: int, chain_situations: Collection[tuple[ChainId, Situation]]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "chain_id": chain_id,
            "cluster_id": cluster_id,
            "state": situation.state.value,
            "at_risk": situation.at_risk,
            "interrupted": situation.interrupted,
        }
        for chain_id, situation in chain_situations
    ]
    put_rows(tx, situations, rows, key=["chain_id"])


def forget_situations(tx: Transaction, cluster_id: int) -> None:
    tx.execute(delete(situations).where(situations.c.cluster_id == cluster_id))


def give_up_notices(
    tx: Transaction, cluster_id: int, reason: str, *, before: int | None = None
) -> None:
    """Give up the notices that wait; `before`: only those of events before that instant."""
    is_waiting = (notices.c.cluster_id == cluster_id, notices.c.state == NoticeState.PENDING.value)
    old = () if before is None else (notices.c.at < before,)
    given_up = {"state": NoticeState.GIVEN_UP.value, "error": reason}
    tx.execute(update(notices).where(*is_waiting, *old).values(given_up))


def enqueue_notices(tx: Transaction, new: Sequence[Notice]) -> None:
    """Put notices into the outbox, due at once."""
    rows = [
        {
            "cluster_id": notice.cluster_id,
            "chain_id": notice.chain_id,
            "user": notice.user,
            "channel": notice.channel,
            "event": notice.event,
            "says": notice.says,
            "at": notice.at,
            "state": NoticeState.PENDING.value,
            "due_at": notice.at,
            "tries": 0,
            "error": "",
        }
        for notice in new
    ]
    if rows:
        tx.execute(build_insert(tx, notices), rows)


class Delivery(NamedTuple):
    """The notices of one chain that wait for one channel: they are sent as one message."""

    channel: str
    chain_id: ChainId
    owner: str


def list_due_deliveries(
    tx: Transaction, cluster_id: int, now: int, urgency: Mapping[str, int] | None = None
) -> list[Delivery]:
    """List the deliveries of which all waiting notices are due.

    Those whose events have the least `urgency` come first, of these the one that waits longest.
    While a notice waits to be retried, newer notices of the same chain wait behind it, so that
    order is kept.
    """
    ranked = [(notices.c.event == event, rank) for event, rank in (urgency or {}).items()]
    rank = case(*ranked, else_=0) if ranked else literal(0)
    query = (
        select(
            notices.c.channel,
            notices.c.chain_id,
            func.min(notices.c.user).label("owner"),
            func.min(rank).label("rank"),
            func.min(notices.c.at).label("first"),
        )
        .where(notices.c.cluster_id == cluster_id, notices.c.state == NoticeState.PENDING.value)
        .group_by(notices.c.channel, notices.c.chain_id)
        .having(func.max(notices.c.due_at) <= now)
        .order_by("rank", "first", notices.c.chain_id)
    )
    return [Delivery(row.channel, ChainId(row.chain_id), row.owner) for row in tx.execute(query)]


def claim_notices(
    tx: Transaction, cluster_id: int, channel: str, chain_id: ChainId, *, now: int, until: int
) -> list[Notice]:
    """Claim all waiting notices of a chain for a channel, oldest first. They are due again at
    `until` unless they are settled.

    Returns nothing if another process was quicker. Each claim counts as a try.
    """
    is_due = (
        notices.c.cluster_id == cluster_id,
        notices.c.channel == channel,
        notices.c.chain_id == chain_id,
        notices.c.state == NoticeState.PENDING.value,
        notices.c.due_at <= now,
    )
    tries = notices.c.tries + 1
    claim = update(notices).where(*is_due).values(due_at=until, tries=tries).returning(notices)
    rows = sorted(tx.execute(claim), key=lambda row: int(row.id))
    return [
        Notice(
            cluster_id=row.cluster_id,
            chain_id=ChainId(row.chain_id),
            user=row.user,
            channel=row.channel,
            event=row.event,
            says=row.says,
            at=row.at,
            tries=row.tries,
            id=row.id,
        )
        for row in rows
    ]


def settle_notices(  # noqa: PLR0913 - a row's values
    tx: Transaction,
    cluster_id: int,
    ids: Collection[int],
    state: NoticeState,
    *,
    due_at: int = 0,
    sent_at: int | None = None,
    error: str = "",
) -> None:
    values = {"state": state.value, "due_at": due_at, "sent_at": sent_at, "error": error}
    is_chosen = (notices.c.cluster_id == cluster_id, notices.c.id.in_(set(ids)))
    tx.execute(update(notices).where(*is_chosen).values(**values))


def put_off_notices(
    tx: Transaction, cluster_id: int, channel: str, chain_id: ChainId, until: int
) -> None:
    """Put off a chain's waiting notices for a channel: none is due before `until`."""
    tx.execute(
        update(notices)
        .where(
            notices.c.cluster_id == cluster_id,
            notices.c.channel == channel,
            notices.c.chain_id == chain_id,
            notices.c.state == NoticeState.PENDING.value,
            notices.c.due_at < until,
        )
        .values(due_at=until)
    )


def read_last_sent_at(
    tx: Transaction, cluster_id: int, channel: str, chain_id: ChainId
) -> int | None:
    query = select(func.max(notices.c.sent_at)).where(
        notices.c.cluster_id == cluster_id,
        notices.c.channel == channel,
        notices.c.chain_id == chain_id,
    )
    sent_at = tx.scalar(query)
    return None if sent_at is None else int(sent_at)


def count_digests_since(tx: Transaction, cluster_id: int, since: int) -> dict[tuple[str, str], int]:
    """Count by channel and owner the messages that were sent after that instant.

    Notices of one channel, chain and second are one message.
    """
    query = (
        select(notices.c.channel, notices.c.user, notices.c.chain_id, notices.c.sent_at)
        .where(notices.c.cluster_id == cluster_id, notices.c.sent_at > since)
        .distinct()
    )
    return dict(Counter((row.channel, row.user) for row in tx.execute(query)))


def forget_settled_notices(tx: Transaction, cluster_id: int, before: int) -> None:
    """Delete settled notices of events before that instant."""
    tx.execute(
        delete(notices).where(
            notices.c.cluster_id == cluster_id,
            notices.c.at < before,
            or_(
                notices.c.state == NoticeState.SENT.value,
                notices.c.state == NoticeState.GIVEN_UP.value,
            ),
        )
    )
