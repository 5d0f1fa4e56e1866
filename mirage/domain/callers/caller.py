"""Describes callers of the service, and what they may see and steer."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirage.domain.chain import Chain, Link

NOBODY_UID = -1
"""The uid of a caller who is no user of the cluster: the holder of a token without a user."""

NO_ACCOUNT = "uids without an account"
"""The name under which quotas count some callers together: those whose uid has no account on the
service's host and of whom Slurm has shown no job. (A container has no user's account.)"""

JOBS, USAGE, NODES, PARTITIONS = "jobs", "usage", "nodes", "partitions"
EVERYTHING = frozenset({JOBS, USAGE, NODES, PARTITIONS})
"""The words of Slurm's PrivateData that hide something in Mirage. Its other words (accounts, users,
events, reservations, cloud) are about things that Mirage never shows."""


class Role(StrEnum):
    """A caller's role. Each role may do all that the roles before it may."""

    VIEWER = "viewer"
    """Sees what the cluster hides from nobody, and changes nothing."""
    USER = "user"
    """Also sees and steers their own chains."""
    COORDINATOR = "coordinator"
    """Also sees and steers the chains of accounts that the caller coordinates in Slurm."""
    ADMIN = "admin"
    """Sees and steers everything: also modes, the kill switch and the audit."""

    def limit_to(self, other: "Role") -> "Role":
        order = list(Role)
        return min(self, other, key=order.index)


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified caller. `user` is a user of the cluster unless `uid` is NOBODY_UID."""

    uid: int
    user: str
    via: str = "munge"
    """How the caller was identified: munge, sack, jwt, token or socket."""
    role: Role | None = None
    """The highest role that this credential allows; None: the role of its user."""
    read_only: bool = False
    names_cluster: bool = True
    """Whether the credential names the service that it is for. That of an older plugin does not."""
    counts_alone: bool = True
    """Whether quotas count this uid by itself. Otherwise it counts together with all of NO_ACCOUNT:
    one user may run processes under thousands of uids without an account (subuid(5))."""


ClaimUse = Callable[[Caller, str, int], bool]
"""Claims the only use of a credential: its caller, a digest of it, and the last second in which it
is good (epoch). Returns whether it was not used before. May raise TooMany."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRows:
    """A choice of rows: those of one user, and of the accounts that the user coordinates."""

    uid: int
    user: str
    accounts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller, identified or not, and what they may see and steer. The defaults allow nothing."""

    uid: int = NOBODY_UID
    user: str = ""
    role: Role = Role.VIEWER
    accounts: frozenset[str] = frozenset()
    """The accounts that the caller coordinates."""
    hidden: frozenset[str] = frozenset()
    """The words of PrivateData in force."""

    @property
    def is_known(self) -> bool:
        return bool(self.user)

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN

    def can_see(self, *words: str) -> bool:
        """Return whether none of these words hides other users' data from this caller."""
        return self.is_admin or not self.hidden & set(words)

    @property
    def can_see_all_chains(self) -> bool:
        """Return whether all chains are visible. A chain shows jobs, and the node-hours that they
        used."""
        return self.can_see(JOBS, USAGE)

    def build_own_rows(self) -> OwnRows:
        return OwnRows(uid=self._own_uid, user=self.user, accounts=self.accounts)

    def can_steer(self, chain: Chain, links: Sequence[Link]) -> bool:
        """Return whether the caller may steer the chain."""
        return self.is_admin or self._is_theirs(chain.uid, [link.account for link in links])

    def can_see_chain(self, chain: Chain, links: Sequence[Link]) -> bool:
        return self.can_see_all_chains or self.can_steer(chain, links)

    def can_see_chain_of(self, uid: int, accounts: Collection[str]) -> bool:
        """Return whether the caller may see the chain of this owner, with links of these
        accounts."""
        return self.can_see_all_chains or self._is_theirs(uid, accounts)

    @property
    def _own_uid(self) -> int:
        return NOBODY_UID if self.role is Role.VIEWER else self.uid

    def _is_theirs(self, uid: int, accounts: Collection[str]) -> bool:
        is_owner = self._own_uid == uid != NOBODY_UID
        return is_owner or (bool(accounts) and set(accounts) <= self.accounts)
