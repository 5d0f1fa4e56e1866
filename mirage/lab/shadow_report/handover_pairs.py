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
    """The options of `mirage report shadow` that choose pairs, as the user wrote them."""

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
    reason: str
    """The origin of its size, time limit and user, as the report words it."""

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


def compute_window(
    jobs: Sequence[SimJob], options: ReportOptions, limit_s: int = 0
) -> ReportWindow:
    """Compute the window of the start points. Days at the ends of a log are left out.

    The first six days lack the jobs that ran before. The last two time limits lack the jobs that
    came after.
    """
    first, last = jobs[0].submit, jobs[-1].submit
    until = last - 2 * limit_s
    if options.until is not None:
        until = min(until, parse_instant(options.until, "--until"))
    return ReportWindow(
        since=max(round_to_midnight(first + LEAD_IN_S), parse_since(options.since, until)),
        until=until,
    )


def check_window(jobs: Sequence[SimJob], options: ReportOptions) -> None:
    """Raise InputError if the options ask for days that the log does not have.

    That is a typing error. A site with too little history gets a report that says so.
    """
    first, last = jobs[0].submit, jobs[-1].submit
    until = last if options.until is None else parse_instant(options.until, "--until")
    since = parse_since(options.since, until)
    if since >= until or since > last or until < first:
        days = f"--since {options.since} and --until {options.until or 'its end'}"
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
    jobs: Sequence[SimJob], params: Params, options: ReportOptions
) -> list[HandoverPair]:
    """Choose a pair for each partition, size and user class. Raises InputError if there can be
    none."""
    window = compute_window(jobs, options)
    window_jobs = [job for job in jobs if window.since <= job.submit < window.until] or list(jobs)
    names = _choose_partitions(window_jobs, params, options.partitions)
    pairs = [
        pair
        for name in names
        for pair in _choose_partition_pairs(window_jobs, jobs, params, name, options)
    ]
    if not pairs:
        raise InputError(
            f"no job ran in {', '.join(names) or 'any partition'}, so there is no usual size: "
            "give --nodes and --time-limit"
        )
    for pair in pairs:
        # A window without start points is no fault of the input: the report says so.
        settings = replace(pair.settings, until=max(pair.settings.until, pair.settings.since + 1))
        settings.check_feasible(params)
    return pairs


def _choose_partitions(jobs: Sequence[SimJob], params: Params, names: Sequence[str]) -> list[str]:
    known_names = [partition.name for partition in params.partitions]
    for name in names:
        if name not in known_names:
            raise InputError(
                f"the cluster file has no partition {name!r}: "
                f"choose one of {', '.join(known_names)}"
            )
    return list(dict.fromkeys(names)) or list_busy_partitions(jobs, params)


def _choose_partition_pairs(
    window_jobs: Sequence[SimJob],
    jobs: Sequence[SimJob],
    params: Params,
    name: str,
    options: ReportOptions,
) -> Iterator[HandoverPair]:
    usual_pair = find_representative_pair(window_jobs, params, name)
    limit_s = _choose_limit_s(options, usual_pair)
    widths = tuple(dict.fromkeys(options.nodes)) or (usual_pair.nodes if usual_pair else ())
    if limit_s is None or not widths:
        return
    window = compute_window(jobs, options, limit_s)
    for nodes in widths:
        settings = PairSettings(
            nodes=nodes,
            time_limit_s=limit_s,
            every_s=parse_duration_s(options.every, "--every"),
            since=window.since,
            until=window.until,
            partition=name,
        )
        reason = _explain_choice(options, usual_pair)
        yield HandoverPair(settings=settings, user_class=OWN, reason=reason)
        heaviest = (
            find_heaviest_user(window_jobs, params, name)
            if params.priority_weight_fairshare
            else None
        )
        if heaviest is not None:
            user, account = heaviest
            user_settings = replace(settings, user=user, account=account)
            yield HandoverPair(settings=user_settings, user_class=HEAVIEST, reason=reason)


def _choose_limit_s(options: ReportOptions, usual_pair: RepresentativePair | None) -> int | None:
    if options.time_limit is not None:
        return parse_duration_s(options.time_limit, "--time-limit")
    return None if usual_pair is None else usual_pair.time_limit_s


def _explain_choice(options: ReportOptions, usual_pair: RepresentativePair | None) -> str:
    if options.nodes and options.time_limit:
        return "as asked"
    share = 0.0 if usual_pair is None else usual_pair.share
    if options.nodes or options.time_limit:
        return "as asked, and the partition's most used long jobs"
    return f"the partition's most used long jobs: {share:.0%} of its node-hours"
