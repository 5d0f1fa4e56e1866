"""Reads the pair of a table from options: spans of time, dates, a user."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from mirage.domain.time_units import DAY_S
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import InputError, MalformedText
from mirage.judging.table.pair_settings import PairSettings, check_account, find_account
from mirage.simulator.types import SimJob

LEAD_IN_S = 6 * 86400
"""By default there are no start points in the first days of a trace, which lack the jobs that
ran before."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": DAY_S}
_SHORT = re.compile(r"(\d+)([smhd])")


def build_pair_settings(
    jobs: Sequence[SimJob],
    nodes: int,
    time_limit: str,
    every: str,
    since: str | None,
    until: str | None,
) -> PairSettings:
    """Build the settings of the pairs from options.

    `jobs` are those of the trace, by submission. Without `since` the start points begin LEAD_IN_S
    after its first submission; without `until` they end two time limits before its last one. Raises
    InputError for an option that cannot be parsed or lies outside the trace.
    """
    limit_s = parse_duration_s(time_limit, "--time-limit")
    first, last = jobs[0].submit, jobs[-1].submit
    settings = PairSettings(
        nodes=nodes,
        time_limit_s=limit_s,
        every_s=parse_duration_s(every, "--every"),
        since=round_to_midnight(first + LEAD_IN_S)
        if since is None
        else parse_instant(since, "--from"),
        until=last - 2 * limit_s if until is None else parse_instant(until, "--until"),
    )
    if (since and settings.since > last) or (until and settings.until < first):
        days = (
            datetime.fromtimestamp(instant, UTC).date().isoformat() for instant in (first, last)
        )
        raise InputError(
            f"--from and --until lie outside the trace: it has submissions of {' to '.join(days)}"
        )
    return settings


def choose_account(jobs: Sequence[SimJob], user: str, account: str) -> str:
    """Return `account` if it is not empty, else the account of the user.

    Raises InputError if the account is not the user's.
    """
    if account:
        check_account(jobs, user, account)
    return account or (find_account(jobs, user) if user else "")


def parse_duration_s(text: str, option: str) -> int:
    match = _SHORT.fullmatch(text.strip().lower())
    if match:
        return int(match[1]) * _UNITS_S[match[2]]
    try:
        seconds = parse_time_limit(text)
    except MalformedText:
        seconds = None
    if not seconds or seconds == UNLIMITED:
        raise InputError(f"{option} {text}: not a time such as 4h or 48:00:00")
    return seconds


def parse_instant(text: str, option: str) -> int:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: not a date such as 2023-02-13") from None
    return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())


def round_to_midnight(instant: int) -> int:
    return -(-instant // DAY_S) * DAY_S
