"""The bounds of `services.access.quotas` as requests meet them: who asks, and for what."""

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request

from mirage.domain.access.caller import NO_ACCOUNT, NOBODY_UID, Caller
from mirage.http.auth.socket_owner import to_client_name
from mirage.services.access.quotas import QuotaHolder, Quotas, RateLimiter, Slots

FORECASTS_AT_ONCE = 8
"""Of Starlette's 40 threads: whatever is asked of forecasts, the others answer."""

OF_AN_ADDRESS = 5
"""Users' shares, where nobody says who they are: a login node or a proxy speaks for many."""

_SLOT_S = 10
"""A file of 200,000 jobs takes five to eight seconds (docs/reference/rest.md)."""


class Quota:
    """Counts the requests of all callers of one app against their quotas."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._writes = RateLimiter(quotas.writes_burst, quotas.writes_per_minute, clock)
        each, all_of = quotas.forecasts_per_minute, OF_AN_ADDRESS * quotas.forecasts_per_minute
        self._forecasts = RateLimiter(each, each, clock)
        self._forecasts_of = RateLimiter(all_of, all_of, clock)
        said = "too many forecasts are being made: ask again in a moment"
        self._foretelling = Slots(FORECASTS_AT_ONCE, said, 1)
        said = "too many files are being written, or half of those are yours: ask again later"
        self.exports = Slots(quotas.exports, said, _SLOT_S)

    @property
    def export_s(self) -> int:
        return self._quotas.export_s

    def check_write(self, who: QuotaHolder) -> None:
        """Raises TooMany."""
        burst, each = self._quotas.writes_burst, self._quotas.writes_per_minute
        said = f"one user changes up to {burst} things at once, and then {each} a minute"
        self._writes.check_rate(who.name, f"{said} (quota.writes_per_minute)")

    @contextmanager
    def limit_forecasts(self, who: QuotaHolder) -> Iterator[None]:
        """Raises TooMany."""
        each = self._quotas.forecasts_per_minute
        said = f"one user looks at {each} forecasts a minute (quota.forecasts_per_minute)"
        if who.known:
            self._forecasts.check_rate(who.name, said)
        else:
            said = f"{said}, and all of one address who do not say who they are at {OF_AN_ADDRESS}"
            self._forecasts_of.check_rate(who.name, f"{said} times as many")
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
    """A token without a user is its own; uids without an account are one caller together."""
    if who.uid == NOBODY_UID:
        return QuotaHolder(who.via, known=True)
    return QuotaHolder(f"uid {who.uid}" if who.counts_alone else NO_ACCOUNT, known=True)


def get_client_address(request: Request) -> str:
    """Behind a proxy, the proxy's: whoever reads without a credential is one caller there."""
    if request.client is None:
        return "unix socket"
    try:
        found = ipaddress.ip_address(request.client.host)
    except ValueError:
        return request.client.host
    return to_client_name(found)
