"""Holds the latest changes for all listeners, so that each process asks the database only once.

A listener keeps one number, that of the last change it received, so a slow listener costs no
more than a fast one. If a listener has missed too much, it gets a reset and then reads
everything again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from starlette.concurrency import run_in_threadpool

from mirage.database.access import row_access
from mirage.database.access.row_access import ChainOwner
from mirage.database.events import changes
from mirage.database.events.changes import Change, Topic
from mirage.domain.callers.caller import Principal
from mirage.domain.chain import ChainId
from mirage.errors import MirageError
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import read_freshness
from mirage.web.shared.problems import TOO_MANY, ProblemError

_log = structlog.get_logger(__name__)

MOST = 256
"""The most listeners of one process, and at most half of its connections."""
MOST_OF_ONE = 16
"""The most listeners of one user."""
MOST_FROM_ONE = 32
"""The most listeners from one client without a credential (http/server/admission.py)."""
FOR_KNOWN = 64
"""Listeners that are kept for callers with a credential, at most half. Others share the rest."""
EVERY_S = 1.0
BATCH = 500
"""Changes that are read at once, and the most by which a returning listener may be behind."""
REMEMBERED = 2000


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes after a number, oldest first, with the owners of their chains. `news` None: some of
    the changes are no longer kept."""

    news: Sequence[Change] | None
    owners: Mapping[ChainId, ChainOwner]
    newest: int
    health: str
    """The health: ok, stale or unavailable."""


@dataclass(eq=False, slots=True)
class Listener:
    """One open stream of events. Its methods are called only in the event loop."""

    who: Principal
    client: str | None = None
    """The address of the client; None: many clients share it."""
    ended: bool = False
    lost: bool = False
    """Whether the database was restored from a copy, so that the listener has to begin again."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake_up(self) -> None:
        self._woken.set()

    def end_listening(self) -> None:
        self.ended = True
        self._woken.set()

    async def wait_for_change(self, timeout_s: float) -> None:
        """Wait until the listener is woken, for `timeout_s` at most."""
        try:
            await asyncio.wait_for(self._woken.wait(), timeout_s)
        except TimeoutError:
            return
        self._woken.clear()


class ChangeFeed:
    """The changes of one cluster, which a process follows while anybody listens."""

    def __init__(self, given: ApiContext, *, every_s: float = EVERY_S) -> None:
        self._given = given
        self._every_s = every_s
        self._listeners: list[Listener] = []
        self._reading: asyncio.Task[None] | None = None
        self._recent: deque[Change] = deque(maxlen=REMEMBERED)
        self._owners: dict[ChainId, ChainOwner] = {}
        self._last = 0
        self.health = "ok"

    @contextmanager
    def open_listener(self, who: Principal, client: str | None = None) -> Iterator[Listener]:
        """Open a listener. Raises ProblemError if too many are open."""
        listener = Listener(who, client)
        if not self._has_room_for(listener):
            raise ProblemError(
                TOO_MANY, "too many event streams are open: close one of them and try again"
            )
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)
            if not self._listeners and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    def _has_room_for(self, new: Listener) -> bool:
        most = min(MOST, self._given.connections // 2)
        theirs = [other for other in self._listeners if other.who.user == new.who.user]
        if len(self._listeners) >= most:
            return False
        if new.who.is_known:
            return len(theirs) < MOST_OF_ONE
        from_there = sum(other.client == new.client for other in theirs)
        is_one_too_many = new.client is not None and from_there >= MOST_FROM_ONE
        return len(theirs) < most - min(FOR_KNOWN, most // 2) and not is_one_too_many

    async def read_missed_changes(self, after: int | None) -> ChangeBatch:
        """Return the changes that a listener missed after the number `after`.

        If `after` is None, the listener begins now and has missed nothing.
        """
        seen = await run_in_threadpool(self._read_changes, after)
        if self._reading is None and self._listeners:
            self._recent.clear()
            self._last, self.health = seen.newest, seen.health
            self._reading = asyncio.create_task(self._follow_changes())
        return seen

    def get_changes_after(self, number: int) -> Sequence[Change] | None:
        """Return the known changes after that number; None: some are no longer kept."""
        if number >= self._last:
            return []
        first = self._last - len(self._recent)
        return None if number < first else list(self._recent)[number - first :]

    @property
    def last(self) -> int:
        return self._last

    @property
    def owners(self) -> Mapping[ChainId, ChainOwner]:
        """Return the owners of the chains that the remembered changes name."""
        return self._owners

    async def _follow_changes(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                seen = await run_in_threadpool(self._read_changes, self._last)
            except Exception:  # who follows for everybody goes on
                _log.exception("changes cannot be read")
                continue
            if seen.health == self.health and seen.newest == self._last:
                continue
            if seen.news is None:
                self._recent.clear()
                self._owners = {}
            else:
                self._recent.extend(seen.news)
                self._owners = self._select_named_owners() | dict(seen.owners)
            self._last, self.health = seen.newest, seen.health
            for listener in self._listeners:
                listener.lost |= seen.news is None
                listener.wake_up()

    def _select_named_owners(self) -> dict[ChainId, ChainOwner]:
        named = {chain_id for change in self._recent for chain_id in change.chain_ids or ()}
        return {chain_id: owner for chain_id, owner in self._owners.items() if chain_id in named}

    def _read_changes(self, after: int | None) -> ChangeBatch:
        """Read the changes after that number. Call it in a thread, as the database may block."""
        given = self._given
        try:
            with given.store.read() as tx:
                newest = changes.read_newest_seq(tx, given.cluster_id)
                after = newest if after is None else after
                news = changes.list_changes_since(tx, given.cluster_id, after, BATCH + 1)
                if news is not None and len(news) > BATCH:
                    news = None
                named = {chain_id for new in news or () for chain_id in new.chain_ids or ()}
                owners = row_access.list_chain_owners(tx, given.cluster_id, named) if named else {}
                health = "stale" if read_freshness(tx, given).stale else "ok"
        except MirageError as error:
            if self.health != "unavailable":
                _log.warning("changes cannot be read", error=str(error))
            last = self._last if after is None else after
            return ChangeBatch([], {}, last, "unavailable")
        return ChangeBatch(news, owners, newest, health)


def serialize_change(
    change: Change, who: Principal, owners: Mapping[ChainId, ChainOwner], topics: set[Topic]
) -> dict[str, object] | None:
    """Return the part of the change that this caller may see; None if there is no such part."""
    if change.topic not in topics:
        return None
    told: dict[str, object] = {"id": change.seq, "topic": change.topic.value}
    if change.topic not in {Topic.CHAINS, Topic.DECISIONS}:
        return told
    if change.chain_ids is None:
        return told | {"chain_ids": None}
    theirs = [
        chain_id for chain_id in change.chain_ids if _can_see_chain(who, owners.get(chain_id))
    ]
    return told | {"chain_ids": theirs} if theirs else None


def _can_see_chain(who: Principal, owner: ChainOwner | None) -> bool:
    return owner is not None and who.can_see_chain_of(owner.uid, owner.accounts)


Ending = Callable[[Callable[[], None]], None]
"""Takes a function to be called when the server ends (http/auth/unix_peer.py)."""
