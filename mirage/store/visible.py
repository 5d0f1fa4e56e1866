"""Conditions that narrow a query to what is somebody's own."""

from sqlalchemy import ColumnElement, and_, false, or_, select

from mirage.domain.caller import NOBODY_UID, Own
from mirage.store.tables import chains, jobs, links


def own_chains(own: Own) -> ColumnElement[bool]:
    """Chains of the user, and those whose links are all of accounts that they coordinate."""
    mine = false() if own.uid == NOBODY_UID else chains.c.uid == own.uid
    if not own.accounts:
        return mine
    within = select(links.c.chain_id).where(links.c.account.in_(own.accounts))
    beyond = select(links.c.chain_id).where(links.c.account.not_in(own.accounts))
    theirs = and_(chains.c.chain_id.in_(within), chains.c.chain_id.not_in(beyond))
    return or_(mine, theirs)


def own_jobs(own: Own) -> ColumnElement[bool]:
    """Jobs of the user, and of the accounts that they coordinate."""
    mine = false() if own.uid == NOBODY_UID else jobs.c.uid == own.uid
    return or_(mine, jobs.c.account.in_(own.accounts)) if own.accounts else mine
