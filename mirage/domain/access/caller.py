"""Tells who asks the service for something, and what of the cluster they may see and steer."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirage.domain.chain import Chain, Link

NOBODY_UID = -1
"""Of a caller who is no user of the cluster: the holder of a token without one."""

NO_ACCOUNT = "uids without an account"
"""What callers are counted as, all together, whose uid no account of the service's host has and of
whom Slurm has shown no job. (A container knows no account of any user.)"""

JOBS, USAGE, NODES, PARTITIONS = "jobs", "usage", "nodes", "partitions"
EVERYTHING = frozenset({JOBS, USAGE, NODES, PARTITIONS})
"""The words of PrivateData that a view of Mirage's answers to. The others (accounts, users, events,
reservations, cloud) are of things that Mirage shows nowhere."""


class Role(StrEnum):
    """Each may do what those before it may."""

    VIEWER = "viewer"
    """Looks at what the cluster hides from nobody; changes nothing."""
    USER = "user"
    """And at the own chains, which obey."""
    COORDINATOR = "coordinator"
    """And at the chains of the accounts that Slurm has them coordinate, which obey."""
    ADMIN = "admin"
    """Sees all, and steers all: modes, the kill switch, the audit."""

    def limit_to(self, other: "Role") -> "Role":
        order = list(Role)
        return min(self, other, key=order.index)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody vouched for. `user` is a user of the cluster unless `uid` is NOBODY_UID."""

    uid: int
    user: str
    via: str = "munge"
    """Who vouches: munge, jwt, token, socket."""
    role: Role | None = None
    """The most that this credential allows; None: what its user may."""
    read_only: bool = False
    names_cluster: bool = True
    """Whether the credential says which service it is for; an older plugin's does not."""
    counts_alone: bool = True
    """Whether quotas count this uid by itself. Else it counts as one with all of NO_ACCOUNT: one
    user may run processes under thousands of uids without an account (subuid(5))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRows:
    """The rows that a query is narrowed to: those of one user, and of accounts they coordinate."""

    uid: int
    user: str
    accounts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller, known or not, with what they may see and steer. The defaults are nobody's."""

    uid: int = NOBODY_UID
    user: str = ""
    role: Role = Role.VIEWER
    accounts: frozenset[str] = frozenset()
    """Those that they coordinate."""
    hidden: frozenset[str] = frozenset()
    """Words of PrivateData."""

    @property
    def is_known(self) -> bool:
        return bool(self.user)

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    def can_see(self, *words: str) -> bool:
        """Return whether none of these words hides others' things from this caller."""
        return self.is_admin or not self.hidden & set(words)

    @property
    def can_see_all_chains(self) -> bool:
        """A chain tells of jobs, and of the node-hours that they took."""
        return self.can_see(JOBS, USAGE)

    def build_own_rows(self) -> OwnRows:
        return OwnRows(uid=self._own_uid, user=self.user, accounts=self.accounts)

    def can_steer(self, chain: Chain, links: Sequence[Link]) -> bool:
        """Return whether the caller may steer the chain."""
        return self.is_admin or self._is_theirs(chain.uid, [link.account for link in links])

    def can_see_chain(self, chain: Chain, links: Sequence[Link]) -> bool:
        return self.can_see_all_chains or self.can_steer(chain, links)

    def can_see_chain_of(self, uid: int, accounts: Collection[str]) -> bool:
        """The same of one known by its owner and the accounts of its links."""
        return self.can_see_all_chains or self._is_theirs(uid, accounts)

    @property
    def _own_uid(self) -> int:
        return NOBODY_UID if self.role is Role.VIEWER else self.uid

    def _is_theirs(self, uid: int, accounts: Collection[str]) -> bool:
        mine = self._own_uid == uid != NOBODY_UID
        return mine or (bool(accounts) and set(accounts) <= self.accounts)
