"""Applies the quotas of `services.access.quotas` to requests: whose quota counts, and which."""

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request

from mirage.domain.callers.caller import NO_ACCOUNT, NOBODY_UID, Caller
from mirage.web.identity.quotas import QuotaHolder, Quotas, RateLimiter, Slots
from mirage.web.shared.auth.socket_owner import to_client_name

FORECASTS_AT_ONCE = 8
"""Forecasts computed at once. Starlette has 40 threads, so the other requests keep theirs."""

OF_AN_ADDRESS = 5
"""How many users' quotas an address has for callers without a credential, since many users may
share the address of a login node or a proxy."""

_SLOT_S = 10
"""Seconds after which to try again: a file of 200,000 jobs takes five to eight seconds
(docs/reference/rest.md)."""


class Quota:
    """Counts the requests of all callers of one app against their quotas."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._writes = RateLimiter(quotas.writes_burst, quotas.writes_per_minute, clock)
        each, all_of = quotas.forecasts_per_minute, OF_AN_ADDRESS * quotas.forecasts_per_minute
        self._forecasts = RateLimiter(each, each, clock)
        self._forecasts_of = RateLimiter(all_of, all_of, clock)
        said = "the service is making too many forecasts: try again in a moment"
        self._foretelling = Slots(FORECASTS_AT_ONCE, said, 1)
        said = "the service is writing too many files, or half of them are yours: try again later"
        self.exports = Slots(quotas.exports, said, _SLOT_S)

    @property
    def export_s(self) -> int:
        return self._quotas.export_s

    def check_write(self, who: QuotaHolder) -> None:
        """Count a change. Raises TooMany if the holder has made too many."""
        burst, each = self._quotas.writes_burst, self._quotas.writes_per_minute
        said = f"one user may make {burst} changes at once, and then {each} a minute"
        self._writes.check_rate(who.name, f"too many changes: {said} (quota.writes_per_minute)")

    @contextmanager
    def limit_forecasts(self, who: QuotaHolder) -> Iterator[None]:
        """Count a forecast, and hold a slot while it is made. Raises TooMany."""
        each = self._quotas.forecasts_per_minute
        said = f"one user may ask for {each} forecasts a minute (quota.forecasts_per_minute)"
        if who.known:
            self._forecasts.check_rate(who.name, said)
        else:
            said = f"{said}, and one address without credentials for {OF_AN_ADDRESS} times as many"
            self._forecasts_of.check_rate(who.name, said)
        with self._foretelling.acquire_slot(who):
            yield


def get_quota(request: Request) -> Quota:
    found: Quota = request.app.state.quota
    return found


def get_asker(request: Request) -> QuotaHolder:
    """Return whose quota counts: the holder of the verified credential, else the address."""
    who: Caller | None = getattr(request.state, "who", None)
    return QuotaHolder(get_client_address(request), known=False) if who is None else to_asker(who)


def to_asker(who: Caller) -> QuotaHolder:
    """Return whose quota counts for a caller.

    A token without a user has a quota of its own. All uids without an account share one.
    """
    if who.uid == NOBODY_UID:
        return QuotaHolder(who.via, known=True)
    return QuotaHolder(f"uid {who.uid}" if who.counts_alone else NO_ACCOUNT, known=True)


def get_client_address(request: Request) -> str:
    """Return the client's address, or the proxy's: callers behind a proxy count as one."""
    if request.client is None:
        return "unix socket"
    try:
        found = ipaddress.ip_address(request.client.host)
    except ValueError:
        return request.client.host
    return to_client_name(found)
