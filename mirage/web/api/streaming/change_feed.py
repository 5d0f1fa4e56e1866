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

MAX_LISTENERS = 256
"""The most listeners of one process, and at most half of its connections."""
MAX_PER_USER = 16
"""The most listeners of one user."""
MAX_PER_CLIENT = 32
"""The most listeners from one client without a credential (`web.shared.server.admission`)."""
RESERVED_FOR_KNOWN = 64
"""Listeners that are kept for callers with a credential, at most half. Others share the rest."""
POLL_S = 1.0
BATCH = 500
"""Changes that are read at once, and the most by which a returning listener may be behind."""
KEPT_CHANGES = 2000


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes after a number, oldest first, with the owners of their chains. `changes` is
    None if some of them are no longer kept."""

    changes: Sequence[Change] | None
    owners: Mapping[ChainId, ChainOwner]
    newest: int
    health: str
    """The health: ok, stale or unavailable."""


@dataclass(eq=False, slots=True)
class Listener:
    """One open stream of events. Its methods are called only in the event loop."""

    principal: Principal
    client: str | None = None
    """The address of the client; None: many clients share it."""
    has_ended: bool = False
    is_reset: bool = False
    """Whether the database was restored from a copy, so that the listener has to begin again."""
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    def wake_up(self) -> None:
        self._wake_event.set()

    def end_listening(self) -> None:
        self.has_ended = True
        self._wake_event.set()

    async def wait_for_change(self, timeout_s: float) -> None:
        """Wait until the listener is woken, for `timeout_s` at most."""
        try:
            await asyncio.wait_for(self._wake_event.wait(), timeout_s)
        except TimeoutError:
            return
        self._wake_event.clear()


class ChangeFeed:
    """The changes of one cluster, which a process follows while anybody listens."""

    def __init__(self, context: ApiContext, *, every_s: float = POLL_S) -> None:
        self._context = context
        self._every_s = every_s
        self._listeners: list[Listener] = []
        self._reader_task: asyncio.Task[None] | None = None
        self._recent: deque[Change] = deque(maxlen=KEPT_CHANGES)
        self._owners: dict[ChainId, ChainOwner] = {}
        self._last = 0
        self.health = "ok"

    @contextmanager
    def open_listener(self, principal: Principal, client: str | None = None) -> Iterator[Listener]:
        """Open a listener. Raises ProblemError if too many are open."""
        listener = Listener(principal, client)
        if not self._has_room_for(listener):
            raise ProblemError(
                TOO_MANY, "too many event streams are open: close one of them and try again"
            )
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)
            if not self._listeners and self._reader_task is not None:
                self._reader_task.cancel()
                self._reader_task = None

    def _has_room_for(self, new: Listener) -> bool:
        limit = min(MAX_LISTENERS, self._context.connections // 2)
        own_listeners = [
            other for other in self._listeners if other.principal.user == new.principal.user
        ]
        if len(self._listeners) >= limit:
            return False
        if new.principal.is_known:
            return len(own_listeners) < MAX_PER_USER
        from_client = sum(other.client == new.client for other in own_listeners)
        is_one_too_many = new.client is not None and from_client >= MAX_PER_CLIENT
        return (
            len(own_listeners) < limit - min(RESERVED_FOR_KNOWN, limit // 2) and not is_one_too_many
        )

    async def read_missed_changes(self, after: int | None) -> ChangeBatch:
        """Return the changes that a listener missed after the number `after`.

        If `after` is None, the listener begins now and has missed nothing.
        """
        batch = await run_in_threadpool(self._read_changes, after)
        if self._reader_task is None and self._listeners:
            self._recent.clear()
            self._last, self.health = batch.newest, batch.health
            self._reader_task = asyncio.create_task(self._follow_changes())
        return batch

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
                batch = await run_in_threadpool(self._read_changes, self._last)
            except Exception:  # one failure must not end the feed of all listeners
                _log.exception("changes cannot be read")
                continue
            if batch.health == self.health and batch.newest == self._last:
                continue
            if batch.changes is None:
                self._recent.clear()
                self._owners = {}
            else:
                self._recent.extend(batch.changes)
                self._owners = self._select_named_owners() | dict(batch.owners)
            self._last, self.health = batch.newest, batch.health
            for listener in self._listeners:
                listener.is_reset |= batch.changes is None
                listener.wake_up()

    def _select_named_owners(self) -> dict[ChainId, ChainOwner]:
        chain_ids = {chain_id for change in self._recent for chain_id in change.chain_ids or ()}
        return {
            chain_id: owner for chain_id, owner in self._owners.items() if chain_id in chain_ids
        }

    def _read_changes(self, after: int | None) -> ChangeBatch:
        """Read the changes after that number. Call it in a thread, as the database may block."""
        context = self._context
        try:
            with context.store.read() as tx:
                newest = changes.read_newest_seq(tx, context.cluster_id)
                after = newest if after is None else after
                new_changes = changes.list_changes_since(tx, context.cluster_id, after, BATCH + 1)
                if new_changes is not None and len(new_changes) > BATCH:
                    new_changes = None
                chain_ids = {
                    chain_id for new in new_changes or () for chain_id in new.chain_ids or ()
                }
                owners = (
                    row_access.list_chain_owners(tx, context.cluster_id, chain_ids)
                    if chain_ids
                    else {}
                )
                health = "stale" if read_freshness(tx, context).stale else "ok"
        except MirageError as error:
            if self.health != "unavailable":
                _log.warning("changes cannot be read", error=str(error))
            last = self._last if after is None else after
            return ChangeBatch([], {}, last, "unavailable")
        return ChangeBatch(new_changes, owners, newest, health)


def serialize_change(
    change: Change, principal: Principal, owners: Mapping[ChainId, ChainOwner], topics: set[Topic]
) -> dict[str, object] | None:
    """Return the part of the change that this caller may see; None if there is no such part."""
    if change.topic not in topics:
        return None
    event: dict[str, object] = {"id": change.seq, "topic": change.topic.value}
    if change.topic not in {Topic.CHAINS, Topic.DECISIONS}:
        return event
    if change.chain_ids is None:
        return event | {"chain_ids": None}
    visible_ids = [
        chain_id for chain_id in change.chain_ids if _can_see_chain(principal, owners.get(chain_id))
    ]
    return event | {"chain_ids": visible_ids} if visible_ids else None


def _can_see_chain(principal: Principal, owner: ChainOwner | None) -> bool:
    return owner is not None and principal.can_see_chain_of(owner.uid, owner.accounts)


Ending = Callable[[Callable[[], None]], None]
"""Takes a function, which is called when the server ends (`web.shared.auth.unix_peer`)."""
