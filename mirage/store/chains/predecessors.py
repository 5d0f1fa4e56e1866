"""Says in SQL which link is the predecessor of another: `domain.handover.find_predecessor`.

Lists of hand-overs are read page by page, over all chains, so the database pairs their links.
"""

from sqlalchemy import ColumnElement, FromClause, and_, func, select

from mirage.store.database.tables import links


def match_predecessor(before: FromClause, after: FromClause) -> ColumnElement[bool]:
    """Match `before` with the last link earlier than `after` that ran; `after` has started."""
    earlier = links.alias("earlier")
    ran = (
        earlier.c.chain_id == after.c.chain_id,
        earlier.c.index < after.c.index,
        earlier.c.start.is_not(None),
    )
    last = select(func.max(earlier.c.index)).where(*ran).correlate(after).scalar_subquery()
    return and_(before.c.chain_id == after.c.chain_id, before.c.index == last)
