"""Counts requests against the quotas of `web.identity.quotas`, each for the holder of a quota."""

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request

from mirage.domain.callers.caller import NO_ACCOUNT, NOBODY_UID, Caller
from mirage.web.identity.quotas import QuotaHolder, Quotas, RateLimiter, Slots
from mirage.web.shared.auth.socket_owner import to_client_name

FORECASTS_AT_ONCE = 8
"""Forecasts computed at once. Starlette has 40 threads, so the other requests keep theirs."""

USERS_PER_ADDRESS = 5
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
        per_user, per_address = (
            quotas.forecasts_per_minute,
            USERS_PER_ADDRESS * quotas.forecasts_per_minute,
        )
        self._forecasts = RateLimiter(per_user, per_user, clock)
        self._address_forecasts = RateLimiter(per_address, per_address, clock)
        message = "the service is making too many forecasts: try again in a moment"
        self._forecast_slots = Slots(FORECASTS_AT_ONCE, message, 1)
        message = (
            "the service is writing too many files, or half of them are yours: try again later"
        )
        self.exports = Slots(quotas.exports, message, _SLOT_S)

    @property
    def export_s(self) -> int:
        return self._quotas.export_s

    def check_write(self, holder: QuotaHolder) -> None:
        """Count a change. Raises TooMany if the holder has made too many."""
        burst, per_minute = self._quotas.writes_burst, self._quotas.writes_per_minute
        rule = f"one user may make {burst} changes at once, and then {per_minute} a minute"
        self._writes.check_rate(holder.name, f"too many changes: {rule} (quota.writes_per_minute)")

    @contextmanager
    def limit_forecasts(self, holder: QuotaHolder) -> Iterator[None]:
        """Count a forecast, and hold a slot while it is made. Raises TooMany."""
        per_minute = self._quotas.forecasts_per_minute
        rule = f"one user may ask for {per_minute} forecasts a minute (quota.forecasts_per_minute)"
        if holder.is_known:
            self._forecasts.check_rate(holder.name, rule)
        else:
            rule = (
                f"{rule}, and one address without credentials for {USERS_PER_ADDRESS} times as many"
            )
            self._address_forecasts.check_rate(holder.name, rule)
        with self._forecast_slots.acquire_slot(holder):
            yield


def get_quota(request: Request) -> Quota:
    quota: Quota = request.app.state.quota
    return quota


def get_quota_holder(request: Request) -> QuotaHolder:
    """Return whose quota counts: the holder of the verified credential, else the address."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return (
        QuotaHolder(get_client_address(request), is_known=False)
        if caller is None
        else to_quota_holder(caller)
    )


def to_quota_holder(caller: Caller) -> QuotaHolder:
    """Return whose quota counts for a caller.

    A token without a user has a quota of its own. All uids without an account share one.
    """
    if caller.uid == NOBODY_UID:
        return QuotaHolder(caller.via, is_known=True)
    return QuotaHolder(f"uid {caller.uid}" if caller.counts_alone else NO_ACCOUNT, is_known=True)


def get_client_address(request: Request) -> str:
    """Return the client's address, or the proxy's: callers behind a proxy count as one."""
    if request.client is None:
        return "unix socket"
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return request.client.host
    return to_client_name(address)
