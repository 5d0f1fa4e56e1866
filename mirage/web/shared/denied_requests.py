"""Records in the audit who was refused what, and why; never the credential itself."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from fastapi import Request

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.domain.callers.caller import Caller
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import MirageError, NotAllowed, NotIdentified
from mirage.logs import ThrottledLog
from mirage.web.identity.quotas import RateLimiter
from mirage.web.shared import quota
from mirage.web.shared.context import ApiContext

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(30)

OF_ONE, OF_ONE_A_MINUTE = 20, 1
"""Audit rows on one caller: at once, and then a minute. A day of trying makes some 1,500."""
OF_ALL, OF_ALL_A_MINUTE = 120, 4
"""The same for all known callers together, and for all unknown callers together. False credentials
from many addresses therefore leave room for the rows on known callers."""
TELL_AFTER_S = 60.0
"""The number of refusals left out is written with the first refusal after this time."""
MOST_LEFT_OUT = 256
"""Callers for whom omitted refusals are counted one by one; the rest are counted together."""

_REST = "others"
_LONGEST = 200
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class OmittedDenials:
    """Refusals of one caller that were not recorded."""

    whose: str
    number: int
    since: float


class DenialLedger:
    """Decides which refusals are recorded in the audit and the log.

    It records some of each caller, so that no caller can fill the database or hide another's.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of_one = RateLimiter(OF_ONE, OF_ONE_A_MINUTE, clock)
        self._of_all = RateLimiter(OF_ALL, OF_ALL_A_MINUTE, clock)
        self._left_out: dict[str, OmittedDenials] = {}
        self._lock = threading.Lock()

    def should_record(self, whose: str, *, known: bool) -> bool:
        """Return whether to record this refusal; if not, count it as omitted."""
        pool = "known" if known else "unknown"
        if not self._of_one.acquire_or_wait_s(whose) and not self._of_all.acquire_or_wait_s(pool):
            return True
        with self._lock:
            full = whose not in self._left_out and len(self._left_out) >= MOST_LEFT_OUT
            name = _REST if full else whose
            before = self._left_out.get(name, OmittedDenials(name, 0, self._clock()))
            self._left_out[name] = OmittedDenials(name, before.number + 1, before.since)
        return False

    def take_omitted(self) -> Sequence[OmittedDenials]:
        """Return the omitted refusals that are due to be reported, and begin their count anew."""
        with self._lock:
            until = self._clock() - TELL_AFTER_S
            due = [each for each in self._left_out.values() if each.since <= until]
            due = [each for each in due if not self._of_all.acquire_or_wait_s("left out")]
            for each in due:
                del self._left_out[each.whose]
            return due


def _name_account(who: Caller) -> str:
    counted = quota.to_asker(who).name
    return f"{who.user} ({counted})" if who.counts_alone else counted


def record_denial(request: Request, error: MirageError) -> None:
    """Record what was refused to a caller with a credential. A failure to record is only logged."""
    who: Caller | None = getattr(request.state, "who", None)
    claimed = request.headers.get("authorization") or getattr(request.state, "claimed", False)
    if who is None and not claimed:
        return  # without a credential the caller claimed nothing
    ledger: DenialLedger = request.app.state.refusals
    given: ApiContext = request.app.state.context
    entry = _build_entry(request, error, who)
    entries = [_build_omitted_entry(each, given.clock()) for each in ledger.take_omitted()]
    # For a credential that is no longer valid, count by name and address.
    whose = _name_account(who) if who else f"{entry.actor} from {quota.get_client_address(request)}"
    if ledger.should_record(whose, known=who is not None):
        entries.append(entry)
    for each in entries:
        _log.warning("refused", actor=each.actor, **each.detail)
    _write_entries(given, entries)


def _write_entries(given: ApiContext, entries: Sequence[AuditEntry]) -> None:
    if not entries:
        return
    try:
        with given.store.begin() as tx:
            for entry in entries:
                audit.write_entry(tx, given.cluster_id, entry)
    except MirageError as trouble:
        _seldom.log_event(_log.error, "a refusal is not in the audit", error=str(trouble))


def _build_omitted_entry(each: OmittedDenials, now: int) -> AuditEntry:
    why = f"{each.number} more refusals of {each.whose} were not recorded"
    detail = {"why": _truncate_text(why), "number": each.number}
    return AuditEntry(at=now, actor=NOBODY, event="refused: not written", detail=detail)


def _build_entry(request: Request, error: MirageError, who: Caller | None) -> AuditEntry:
    claimed = error.who if isinstance(error, NotIdentified) else ""
    detail = {
        "method": request.method,
        "path": _truncate_text(request.url.path),
        "why": _truncate_text(str(error)),
        "from": "unix socket" if request.client is None else request.client.host,
        "via": _parse_scheme(request) if who is None else who.via,
    }
    given: ApiContext = request.app.state.context
    word = "not allowed" if isinstance(error, NotAllowed) else "not identified"
    return AuditEntry(
        at=given.clock(),
        actor=claimed or (NOBODY if who is None else who.user),
        event=f"refused: {word}",
        detail=detail,
    )


def _parse_scheme(request: Request) -> str:
    """Return the scheme of the credential if it is a known word; the rest is the secret."""
    word = request.headers.get("authorization", "").partition(" ")[0].lower()
    return word if word in {"munge", "bearer"} else "unknown"


def _truncate_text(text: str) -> str:
    return escape_unprintable(text)[:_LONGEST]
