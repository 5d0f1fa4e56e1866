"""Finds links whose carrier asks the service about the next link."""

from sqlalchemy import func, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import chains, links
from mirage.domain.chain import ChainMode, Presubmit


def find_newest_start(tx: Transaction, cluster_id: int, *, now: int, ran_s: int) -> int | None:
    """Return the newest start of a link that asks, and that ran at least `ran_s` seconds by `now`.

    A link asks if another one follows it, and if its chain may plan or submits its links one by
    one. A link asks nothing while an earlier link still runs, so a link that started before an
    earlier one had ended does not count.
    """
    earlier, later = links.alias("earlier"), links.alias("later")
    is_followed = select(later.c.id).where(
        later.c.chain_id == links.c.chain_id, later.c.index > links.c.index
    )
    overlapped = select(earlier.c.id).where(
        earlier.c.chain_id == links.c.chain_id,
        earlier.c.index < links.c.index,
        earlier.c.start.is_not(None),
        func.coalesce(earlier.c.end, now) > links.c.start,
    )
    query = (
        select(func.max(links.c.start))
        .join(chains, chains.c.chain_id == links.c.chain_id)
        .where(
            links.c.cluster_id == cluster_id,
            func.coalesce(links.c.end, now) - links.c.start >= ran_s,
            or_(links.c.index < chains.c.links_planned, is_followed.exists()),
            or_(
                chains.c.mode == ChainMode.SUBMIT.value,
                (chains.c.presubmit != Presubmit.ALL.value)
                & (func.coalesce(chains.c.max_overlap_s, 1) > 0),
            ),
            ~overlapped.exists(),
        )
    )
    start = tx.scalar(query)
    return None if start is None else int(start)
