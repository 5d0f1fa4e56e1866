"""Which hand-overs a shadow report asks about: from the options, and else from the trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mirage.cli.policies.table_options import LEAD_IN_S, instant, midnight, seconds
from mirage.domain.timelimit import format_time_limit
from mirage.episodes.generation.representative_pairs import (
    RepresentativePair,
    find_heaviest_user,
    find_representative_pair,
    list_busy_partitions,
)
from mirage.episodes.table.pair_settings import PairSettings
from mirage.errors import InputError
from mirage.services.reports.stored_report import HEAVIEST
from mirage.sim.types import Params, SimJob

_DAY_S = 86400
OWN = "new user"
"""The other user class. A pair of a user without usage waits less where fair share weighs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options."""

    since: str
    until: str | None
    every: str
    partitions: Sequence[str]
    nodes: Sequence[int]
    time_limit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One table to be made."""

    settings: PairSettings
    user_class: str
    why: str
    """Where its size, limit and user are from."""

    @property
    def name(self) -> str:
        limit = format_time_limit(self.settings.time_limit_s)
        nodes = f"{self.settings.nodes} node" + ("s" if self.settings.nodes > 1 else "")
        user = "" if self.user_class == OWN else f", {self.user_class}"
        return f"{self.settings.partition}: {nodes}, {limit}{user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Start points lie in [since, until), epoch seconds; none where until is not after since."""

    since: int
    until: int

    @property
    def days(self) -> int:
        return max(0, (self.until - self.since) // _DAY_S)


def span(jobs: Sequence[SimJob], asked: Asked, limit_s: int = 0) -> Span:
    """The window; without the days that a trace's ends cannot tell of.

    Six days at the begin lack the jobs that ran before; two time limits at the end lack those
    that came after.
    """
    first, last = jobs[0].submit, jobs[-1].submit
    until = last - 2 * limit_s
    if asked.until is not None:
        until = min(until, instant(asked.until, "--until"))
    return Span(since=max(midnight(first + LEAD_IN_S), since_of(asked.since, until)), until=until)


def check_window(jobs: Sequence[SimJob], asked: Asked) -> None:
    """Raise InputError where the options name days of which the log has none: a slip, not a site
    with too little history."""
    first, last = jobs[0].submit, jobs[-1].submit
    until = last if asked.until is None else instant(asked.until, "--until")
    since = since_of(asked.since, until)
    if since >= until or since > last or until < first:
        days = f"--since {asked.since} and --until {asked.until or 'its end'}"
        raise InputError(
            f"no day of the log lies between {days}: it begins {_day(first)} and ends {_day(last)}"
        )


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def since_of(text: str, until: int) -> int:
    """`28d` is so long before `until`, at most since 1970; else a date."""
    try:
        return max(0, until - seconds(text, "--since"))
    except InputError:
        pass
    try:
        return instant(text, "--since")
    except InputError:
        raise InputError(f"--since {text}: neither a time such as 28d nor a date") from None


def pairs(jobs: Sequence[SimJob], params: Params, asked: Asked) -> list[Pair]:
    """One for each partition, size and user class. Raises InputError where none can be."""
    window = span(jobs, asked)
    mine = [job for job in jobs if window.since <= job.submit < window.until] or list(jobs)
    names = _partitions(mine, params, asked.partitions)
    found = [pair for name in names for pair in _of(mine, jobs, params, name, asked)]
    if not found:
        raise InputError(
            f"no job ran in {', '.join(names) or 'any partition'}: give --nodes and --time-limit"
        )
    for pair in found:
        # Where there is no start point the report says so, and it is no fault of the input.
        one = replace(pair.settings, until=max(pair.settings.until, pair.settings.since + 1))
        one.check_feasible(params)
    return found


def _partitions(jobs: Sequence[SimJob], params: Params, given: Sequence[str]) -> list[str]:
    known = [partition.name for partition in params.partitions]
    for name in given:
        if name not in known:
            raise InputError(
                f"the cluster file has no partition {name!r}: there is {', '.join(known)}"
            )
    return list(dict.fromkeys(given)) or list_busy_partitions(jobs, params)


def _of(
    mine: Sequence[SimJob], jobs: Sequence[SimJob], params: Params, name: str, asked: Asked
) -> Iterator[Pair]:
    seen = find_representative_pair(mine, params, name)
    limit_s = _limit_s(asked, seen)
    widths = tuple(dict.fromkeys(asked.nodes)) or (seen.nodes if seen else ())
    if limit_s is None or not widths:
        return
    window = span(jobs, asked, limit_s)
    for nodes in widths:
        plain = PairSettings(
            nodes=nodes,
            time_limit_s=limit_s,
            every_s=seconds(asked.every, "--every"),
            since=window.since,
            until=window.until,
            partition=name,
        )
        why = _why(asked, seen)
        yield Pair(settings=plain, user_class=OWN, why=why)
        heaviest = (
            find_heaviest_user(mine, params, name) if params.priority_weight_fairshare else None
        )
        if heaviest is not None:
            user, account = heaviest
            theirs = replace(plain, user=user, account=account)
            yield Pair(settings=theirs, user_class=HEAVIEST, why=why)


def _limit_s(asked: Asked, seen: RepresentativePair | None) -> int | None:
    if asked.time_limit is not None:
        return seconds(asked.time_limit, "--time-limit")
    return None if seen is None else seen.time_limit_s


def _why(asked: Asked, seen: RepresentativePair | None) -> str:
    if asked.nodes and asked.time_limit:
        return "as asked"
    share = 0.0 if seen is None else seen.share
    if asked.nodes or asked.time_limit:
        return "as asked, and the partition's most used long jobs"
    return f"the partition's most used long jobs: {share:.0%} of its node-hours"
