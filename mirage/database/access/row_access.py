"""Conditions that narrow a query to a caller's own rows."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, false, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import chains, jobs, links
from mirage.domain.callers.caller import NOBODY_UID, OwnRows
from mirage.domain.chain import ChainId


def match_own_chains(own: OwnRows) -> ColumnElement[bool]:
    """Select the user's chains, and chains whose links all have accounts that the user
    coordinates."""
    is_users = false() if own.uid == NOBODY_UID else chains.c.uid == own.uid
    if not own.accounts:
        return is_users
    with_own_account = select(links.c.chain_id).where(links.c.account.in_(own.accounts))
    with_other_account = select(links.c.chain_id).where(links.c.account.not_in(own.accounts))
    is_of_coordinator = and_(
        chains.c.chain_id.in_(with_own_account), chains.c.chain_id.not_in(with_other_account)
    )
    return or_(is_users, is_of_coordinator)


@dataclass(frozen=True, slots=True)
class ChainOwner:
    """The owner of a chain. `accounts` are the accounts of its links."""

    uid: int
    accounts: frozenset[str]


def list_chain_owners(
    tx: Transaction, cluster_id: int, chain_ids: Collection[ChainId]
) -> dict[ChainId, ChainOwner]:
    """Return the owners of these chains, by chain. Unknown chains are left out."""
    ids = list(chain_ids)
    accounts: dict[ChainId, set[str]] = {}
    query = select(links.c.chain_id, links.c.account).where(
        links.c.cluster_id == cluster_id, links.c.chain_id.in_(ids)
    )
    for chain_id, account in tx.execute(query.distinct()):
        accounts.setdefault(chain_id, set()).add(account)
    owners = select(chains.c.chain_id, chains.c.uid).where(
        chains.c.cluster_id == cluster_id, chains.c.chain_id.in_(ids)
    )
    return {
        chain_id: ChainOwner(uid, frozenset(accounts.get(chain_id, ())))
        for chain_id, uid in tx.execute(owners)
    }


def match_own_jobs(own: OwnRows) -> ColumnElement[bool]:
    """Select the user's jobs, and jobs of accounts that the user coordinates."""
    is_users = false() if own.uid == NOBODY_UID else jobs.c.uid == own.uid
    return or_(is_users, jobs.c.account.in_(own.accounts)) if own.accounts else is_users
