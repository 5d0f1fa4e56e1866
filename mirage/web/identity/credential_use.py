"""Lets a credential of MUNGE or of Slurm's socket (SACK) count once.

munged remembers the credentials that it has read, but each host has a munged of its own. Slurm's
socket remembers none.
"""

import base64
import binascii
import hashlib
import heapq
import threading
from collections import Counter
from collections.abc import Callable

from mirage.database.access import idempotency
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import NOBODY_UID, Caller, ClaimUse
from mirage.errors import NotIdentified, TooMany

MOST_OF_USER = 4096
"""Credentials of one user that are remembered at once: 68 a second, at Slurm's 60 s of life; 6 a
second, at MUNGE's 300 s, where services share a database. All users without an account on this
host are one."""
MOST_IN_ALL = 16384
"""Credentials in all, some 5 MB. Beyond it each user has an equal share, so a user below the share
is still served. The n-th user who floods adds MOST_IN_ALL / n: a thousand take seven times as
much."""
CLOCKS_APART_S = 300
"""A host whose clock is behind by so much takes a credential for longer: a shared database
remembers it for longer too."""


def refuse_second_use(
    verify: Callable[..., tuple[Caller, int]], claim_use: ClaimUse
) -> Callable[..., Caller]:
    """Return what identifies the maker of a MUNGE credential that counts once.

    `verify`: as munge.verify_credential. The returned function raises what it raises, NotIdentified
    for a credential that was used before, and TooMany.
    """

    def identify_once(credential: str, *payloads: str) -> Caller:
        caller, expires_at = verify(credential, *payloads)
        if not claim_use(caller, _hash_credential(credential), expires_at):
            raise NotIdentified("the MUNGE credential was used before", caller.user)
        return caller

    return identify_once


def _hash_credential(credential: str) -> str:
    """Hash what the text encodes. Raises NotIdentified for a second spelling of the same bytes."""
    text = credential.removeprefix("MUNGE:").removesuffix(":").encode()
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        decoded = b""
    if not decoded or base64.b64encode(decoded) != text:
        raise NotIdentified("the credential is not as `munge` writes it")
    return hashlib.sha256(decoded).hexdigest()


class UsedCredentials:
    """Remembers used credentials until they expire, in this process alone."""

    def __init__(
        self, clock: Callable[[], float], *, of_user: int = MOST_OF_USER, in_all: int = MOST_IN_ALL
    ) -> None:
        self._clock = clock
        self._of_user, self._in_all = of_user, in_all
        self._digests: set[str] = set()
        self._by_expiry: list[tuple[int, str, int]] = []
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    def claim_use(self, caller: Caller, digest: str, expires_at: int) -> bool:
        """Return whether the credential was not used before. `expires_at`: its last good second.

        Raises TooMany for a user who has too many in use; the credential is then not used.
        """
        holder = caller.uid if caller.counts_alone else NOBODY_UID
        with self._lock:
            now = int(self._clock())
            self._forget_expired(now)
            if digest in self._digests:
                return False
            if self._counts[holder] >= self._get_most():
                raise TooMany("too many credentials in a minute", max(1, expires_at - now))
            self._digests.add(digest)
            self._counts[holder] += 1
            heapq.heappush(self._by_expiry, (expires_at, digest, holder))
            return True

    def __len__(self) -> int:
        return len(self._digests)

    def _get_most(self) -> int:
        if len(self._digests) < self._in_all:
            return self._of_user
        return min(self._of_user, self._in_all // max(1, len(self._counts)))

    def _forget_expired(self, now: int) -> None:
        while self._by_expiry and self._by_expiry[0][0] < now:
            _, digest, holder = heapq.heappop(self._by_expiry)
            self._digests.remove(digest)
            self._counts[holder] -= 1
            if not self._counts[holder]:
                del self._counts[holder]


def claim_in_database(store: Store, clock: Callable[[], float], used: UsedCredentials) -> ClaimUse:
    """Return the function that lets a credential count once for all services of this database.

    `clock`: this host's, as in `used`. `used`: what this process remembers. It bounds the rows that
    a user can make: a row is kept for as long as it is remembered there.
    """

    def claim_use(caller: Caller, digest: str, expires_at: int) -> bool:
        kept_until = expires_at + CLOCKS_APART_S
        if not used.claim_use(caller, digest, kept_until):
            return False
        with store.begin() as tx:
            return idempotency.claim_credential(
                tx, caller.uid, digest, kept_until=kept_until, now=int(clock())
            )

    return claim_use
