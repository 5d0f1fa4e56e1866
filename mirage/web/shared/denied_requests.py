"""Records refused requests in the audit: the caller, the request and the reason.

A credential is never recorded.
"""

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
_throttled_log = ThrottledLog(30)

CALLER_BURST, CALLER_PER_MINUTE = 20, 1
"""Audit rows on one caller: at once, and then a minute. A day of trying makes some 1,500."""
TOTAL_BURST, TOTAL_PER_MINUTE = 120, 4
"""The same for all known callers together, and for all unknown callers together. False credentials
from many addresses therefore leave room for the rows on known callers."""
REPORT_AFTER_S = 60.0
"""The number of refusals left out is written with the first refusal after this time."""
MAX_OMITTED_CALLERS = 256
"""Callers for whom omitted refusals are counted one by one; the rest are counted together."""

_OTHERS = "others"
_MAX_TEXT_CHARS = 200
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class OmittedDenials:
    """Refusals of one caller that were not recorded."""

    caller_name: str
    number: int
    since: float


class DenialLedger:
    """Decides which refusals are recorded in the audit and the log.

    It records some of each caller, so that no caller can fill the database or hide another's.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._caller_limiter = RateLimiter(CALLER_BURST, CALLER_PER_MINUTE, clock)
        self._total_limiter = RateLimiter(TOTAL_BURST, TOTAL_PER_MINUTE, clock)
        self._omitted: dict[str, OmittedDenials] = {}
        self._lock = threading.Lock()

    def should_record(self, caller_name: str, *, is_known: bool) -> bool:
        """Return whether to record this refusal; if not, count it as omitted."""
        pool = "known" if is_known else "unknown"
        if not self._caller_limiter.acquire_or_wait_s(
            caller_name
        ) and not self._total_limiter.acquire_or_wait_s(pool):
            return True
        with self._lock:
            is_full = caller_name not in self._omitted and len(self._omitted) >= MAX_OMITTED_CALLERS
            name = _OTHERS if is_full else caller_name
            omitted = self._omitted.get(name, OmittedDenials(name, 0, self._clock()))
            self._omitted[name] = OmittedDenials(name, omitted.number + 1, omitted.since)
        return False

    def take_omitted(self) -> Sequence[OmittedDenials]:
        """Return the omitted refusals that are due to be reported, and begin their count anew."""
        with self._lock:
            due_before = self._clock() - REPORT_AFTER_S
            due = [omitted for omitted in self._omitted.values() if omitted.since <= due_before]
            due = [
                omitted for omitted in due if not self._total_limiter.acquire_or_wait_s("left out")
            ]
            for omitted in due:
                del self._omitted[omitted.caller_name]
            return due


def _name_account(caller: Caller) -> str:
    quota_name = quota.to_quota_holder(caller).name
    return f"{caller.user} ({quota_name})" if caller.counts_alone else quota_name


def record_denial(request: Request, error: MirageError) -> None:
    """Record what was refused to a caller with a credential. A failure to record is only logged."""
    caller: Caller | None = getattr(request.state, "caller", None)
    has_credential = request.headers.get("authorization") or getattr(
        request.state, "has_credential", False
    )
    if caller is None and not has_credential:
        return  # without a credential the caller claimed nothing
    ledger: DenialLedger = request.app.state.refusals
    context: ApiContext = request.app.state.context
    entry = _build_entry(request, error, caller)
    entries = [_build_omitted_entry(omitted, context.clock()) for omitted in ledger.take_omitted()]
    # For a credential that is no longer valid, count by name and address.
    caller_name = (
        _name_account(caller)
        if caller
        else f"{entry.actor} from {quota.get_client_address(request)}"
    )
    if ledger.should_record(caller_name, is_known=caller is not None):
        entries.append(entry)
    for recorded in entries:
        _log.warning("refused", actor=recorded.actor, **recorded.detail)
    _write_entries(context, entries)


def _write_entries(context: ApiContext, entries: Sequence[AuditEntry]) -> None:
    if not entries:
        return
    try:
        with context.store.begin() as tx:
            for entry in entries:
                audit.write_entry(tx, context.cluster_id, entry)
    except MirageError as error:
        _throttled_log.log_event(_log.error, "a refusal is not in the audit", error=str(error))


def _build_omitted_entry(omitted: OmittedDenials, now: int) -> AuditEntry:
    reason = f"{omitted.number} more refusals of {omitted.caller_name} were not recorded"
    detail = {"why": _truncate_text(reason), "number": omitted.number}
    return AuditEntry(at=now, actor=NOBODY, event="refused: not written", detail=detail)


def _build_entry(request: Request, error: MirageError, caller: Caller | None) -> AuditEntry:
    claimed_user = error.claimant if isinstance(error, NotIdentified) else ""
    detail = {
        "method": request.method,
        "path": _truncate_text(request.url.path),
        "why": _truncate_text(str(error)),
        "from": "unix socket" if request.client is None else request.client.host,
        "via": _parse_scheme(request) if caller is None else caller.via,
    }
    context: ApiContext = request.app.state.context
    kind = "not allowed" if isinstance(error, NotAllowed) else "not identified"
    return AuditEntry(
        at=context.clock(),
        actor=claimed_user or (NOBODY if caller is None else caller.user),
        event=f"refused: {kind}",
        detail=detail,
    )


def _parse_scheme(request: Request) -> str:
    """Return the scheme of the credential if it is a known word; the rest is the secret."""
    word = request.headers.get("authorization", "").partition(" ")[0].lower()
    return word if word in {"munge", "sack", "bearer"} else "unknown"


def _truncate_text(text: str) -> str:
    return escape_unprintable(text)[:_MAX_TEXT_CHARS]
