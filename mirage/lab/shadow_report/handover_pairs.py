"""Chooses the hand-overs that a shadow report asks about: by options, else by the trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mirage.domain.time_units import DAY_S
from mirage.domain.timelimit import format_time_limit
from mirage.errors import InputError
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.representative_pairs import (
    RepresentativePair,
    find_heaviest_user,
    find_representative_pair,
    list_busy_partitions,
)
from mirage.lab.tables.pair_options import (
    LEAD_IN_S,
    parse_duration_s,
    parse_instant,
    round_to_midnight,
)
from mirage.reports.stored_report import HEAVIEST
from mirage.simulator.types import Params, SimJob

OWN = "new user"
"""The user class of a new user. Without usage, such a user waits less where fair share counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The options."""

    since: str
    until: str | None
    every: str
    partitions: Sequence[str]
    nodes: Sequence[int]
    time_limit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverPair:
    """One table to be made."""

    settings: PairSettings
    user_class: str
    why: str
    """Where its size, time limit and user come from."""

    @property
    def name(self) -> str:
        limit = format_time_limit(self.settings.time_limit_s)
        nodes = f"{self.settings.nodes} node" + ("s" if self.settings.nodes > 1 else "")
        user = "" if self.user_class == OWN else f", {self.user_class}"
        return f"{self.settings.partition}: {nodes}, {limit}{user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWindow:
    """Start points lie in [since, until), epoch seconds. There is none if until is not after
    since."""

    since: int
    until: int

    @property
    def days(self) -> int:
        return max(0, (self.until - self.since) // DAY_S)


def compute_window(jobs: Sequence[SimJob], asked: ReportOptions, limit_s: int = 0) -> ReportWindow:
    """Compute the window. Days at the ends of a log are left out, since the log does not tell
    enough of them.

    The first six days lack the jobs that ran before. The last two time limits lack the jobs that
    came after.
    """
    first, last = jobs[0].submit, jobs[-1].submit
    until = last - 2 * limit_s
    if asked.until is not None:
        until = min(until, parse_instant(asked.until, "--until"))
    return ReportWindow(
        since=max(round_to_midnight(first + LEAD_IN_S), parse_since(asked.since, until)),
        until=until,
    )


def check_window(jobs: Sequence[SimJob], asked: ReportOptions) -> None:
    """Raises InputError if the options ask for days that the log does not have. That is a typing
    error, not a site with too little history."""
    first, last = jobs[0].submit, jobs[-1].submit
    until = last if asked.until is None else parse_instant(asked.until, "--until")
    since = parse_since(asked.since, until)
    if since >= until or since > last or until < first:
        days = f"--since {asked.since} and --until {asked.until or 'its end'}"
        raise InputError(
            f"the log has no day between {days}: "
            f"it begins on {_format_day(first)} and ends on {_format_day(last)}"
        )


def _format_day(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def parse_since(text: str, until: int) -> int:
    """Parse --since into epoch seconds. `28d` is that long before `until`, not before 1970.
    Otherwise the text is a date."""
    try:
        return max(0, until - parse_duration_s(text, "--since"))
    except InputError:
        pass
    try:
        return parse_instant(text, "--since")
    except InputError:
        raise InputError(
            f"--since {text} is not understood: give a time such as 28d, or a date like 2023-02-13"
        ) from None


def choose_pairs(
    jobs: Sequence[SimJob], params: Params, asked: ReportOptions
) -> list[HandoverPair]:
    """Choose a pair for each partition, size and user class. Raises InputError if there can be
    none."""
    window = compute_window(jobs, asked)
    mine = [job for job in jobs if window.since <= job.submit < window.until] or list(jobs)
    names = _choose_partitions(mine, params, asked.partitions)
    found = [
        pair for name in names for pair in _choose_partition_pairs(mine, jobs, params, name, asked)
    ]
    if not found:
        raise InputError(
            f"no job ran in {', '.join(names) or 'any partition'}, so there is no usual size: "
            "give --nodes and --time-limit"
        )
    for pair in found:
        # A window without start points is no fault of the input: the report says so.
        one = replace(pair.settings, until=max(pair.settings.until, pair.settings.since + 1))
        one.check_feasible(params)
    return found


def _choose_partitions(jobs: Sequence[SimJob], params: Params, given: Sequence[str]) -> list[str]:
    known = [partition.name for partition in params.partitions]
    for name in given:
        if name not in known:
            raise InputError(
                f"the cluster file has no partition {name!r}: choose one of {', '.join(known)}"
            )
    return list(dict.fromkeys(given)) or list_busy_partitions(jobs, params)


def _choose_partition_pairs(
    mine: Sequence[SimJob], jobs: Sequence[SimJob], params: Params, name: str, asked: ReportOptions
) -> Iterator[HandoverPair]:
    seen = find_representative_pair(mine, params, name)
    limit_s = _choose_limit_s(asked, seen)
    widths = tuple(dict.fromkeys(asked.nodes)) or (seen.nodes if seen else ())
    if limit_s is None or not widths:
        return
    window = compute_window(jobs, asked, limit_s)
    for nodes in widths:
        plain = PairSettings(
            nodes=nodes,
            time_limit_s=limit_s,
            every_s=parse_duration_s(asked.every, "--every"),
            since=window.since,
            until=window.until,
            partition=name,
        )
        why = _explain_choice(asked, seen)
        yield HandoverPair(settings=plain, user_class=OWN, why=why)
        heaviest = (
            find_heaviest_user(mine, params, name) if params.priority_weight_fairshare else None
        )
        if heaviest is not None:
            user, account = heaviest
            theirs = replace(plain, user=user, account=account)
            yield HandoverPair(settings=theirs, user_class=HEAVIEST, why=why)


def _choose_limit_s(asked: ReportOptions, seen: RepresentativePair | None) -> int | None:
    if asked.time_limit is not None:
        return parse_duration_s(asked.time_limit, "--time-limit")
    return None if seen is None else seen.time_limit_s


def _explain_choice(asked: ReportOptions, seen: RepresentativePair | None) -> str:
    if asked.nodes and asked.time_limit:
        return "as asked"
    share = 0.0 if seen is None else seen.share
    if asked.nodes or asked.time_limit:
        return "as asked, and the partition's most used long jobs"
    return f"the partition's most used long jobs: {share:.0%} of its node-hours"
