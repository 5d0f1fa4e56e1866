"""Who was refused what and why, in the audit: never the credential itself."""

import threading
import time
from collections import deque

import structlog
from fastapi import Request

from mirage.api.context import ApiContext
from mirage.domain.caller import Caller
from mirage.domain.printable import printable
from mirage.errors import MirageError, NotAllowed, NotIdentified
from mirage.logs import Seldom
from mirage.store import audit
from mirage.store.audit import AuditEntry

_log = structlog.get_logger(__name__)
_seldom = Seldom(30)

A_MINUTE = 120
"""Rows at most: whoever is refused a thousand times a second shall not fill the database."""

_LONGEST = 200
NOBODY = "nobody"


class Flood:
    """Says when there were too many in the last minute."""

    def __init__(self, a_minute: int = A_MINUTE) -> None:
        self._times: deque[float] = deque(maxlen=a_minute)
        self._lock = threading.Lock()

    def is_full(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if len(self._times) == self._times.maxlen and now < self._times[0] + 60:
                return True
            self._times.append(now)
            return False


def record(request: Request, error: MirageError) -> None:
    """Write down what was refused to somebody who showed a credential. A failure is only logged."""
    who: Caller | None = getattr(request.state, "who", None)
    claimed = request.headers.get("authorization") or getattr(request.state, "claimed", False)
    if who is None and not claimed:
        return  # a question without a credential: nothing was claimed
    entry = _entry(request, error, who)
    _seldom.say(_log.warning, "refused", actor=entry.actor, **entry.detail)
    if request.app.state.refusals.is_full():
        return
    given: ApiContext = request.app.state.context
    try:
        with given.store.begin() as tx:
            audit.write(tx, given.cluster_id, entry)
    except MirageError as trouble:
        _seldom.say(_log.error, "a refusal is not in the audit", error=str(trouble))


def _entry(request: Request, error: MirageError, who: Caller | None) -> AuditEntry:
    claimed = error.who if isinstance(error, NotIdentified) else ""
    detail = {
        "method": request.method,
        "path": _short(request.url.path),
        "why": _short(str(error)),
        "from": "unix socket" if request.client is None else request.client.host,
        "via": _scheme(request) if who is None else who.via,
    }
    given: ApiContext = request.app.state.context
    word = "not allowed" if isinstance(error, NotAllowed) else "not identified"
    return AuditEntry(
        at=given.clock(),
        actor=claimed or (NOBODY if who is None else who.user),
        event=f"refused: {word}",
        detail=detail,
    )


def _scheme(request: Request) -> str:
    """The first word alone, and only one that is known: the rest is the secret."""
    word = request.headers.get("authorization", "").partition(" ")[0].lower()
    return word if word in {"munge", "bearer"} else "unknown"


def _short(text: str) -> str:
    return printable(text)[:_LONGEST]
