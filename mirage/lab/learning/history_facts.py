"""Says how complete a history of jobs is, and which weeks of it can be replayed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq

from mirage.domain.arrays import Flags, Ints
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.lab.tables.pair_options import LEAD_IN_S, round_to_midnight

WEEK_S = 7 * DAY_S
_FIRST_MONDAY = 4 * DAY_S
"""1970-01-05, in epoch seconds."""
EMPTY_DAYS = 3
"""So many days without a submission in a row are a gap. A quiet weekend is none."""
FEWEST_JOBS = 5
"""A day with fewer jobs does not tell whether accounting was read."""
ENDED_AFTER_S = 31 * DAY_S
"""A job that was submitted so long before the last one, and that has no end, was never accounted
for."""


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until), epoch seconds."""

    since: int
    until: int

    def overlaps(self, since: int, until: int) -> bool:
        return self.since < until and since < self.until

    def __str__(self) -> str:
        return f"{_format_day(self.since)} to {_format_day(self.until - 1)}"


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """How complete a history is."""

    jobs: int
    since: int
    """The first submission, epoch seconds."""
    until: int
    """The last submission, epoch seconds."""
    gaps: tuple[Span, ...] = ()
    """Days without a job."""
    unaccounted: tuple[Span, ...] = ()
    """Days of whose jobs most have no end: accounting was not read."""

    @classmethod
    def from_columns(cls, submit: Ints, end: Ints) -> Self:
        """`submit` and `end` [n] are epoch seconds; an end of -1 is not known. There is a job."""
        since, until = int(submit.min()), int(submit.max())
        first = since // DAY_S
        day = submit // DAY_S - first
        days = int(day.max()) + 1
        count = np.bincount(day, minlength=days)
        ended = np.bincount(day, weights=end >= 0, minlength=days)
        is_old = (np.arange(days) + first + 1) * DAY_S <= until - ENDED_AFTER_S
        # A site without accounting has no ends at all, however short its history is.
        is_judged = is_old | (ended.sum() == 0)
        is_unaccounted = is_judged & (count >= FEWEST_JOBS) & (2 * ended < count)
        return cls(
            jobs=len(submit),
            since=since,
            until=until,
            gaps=tuple(_list_runs(count == 0, first, EMPTY_DAYS)),
            unaccounted=tuple(_list_runs(is_unaccounted, first, 1)),
        )

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a trace that `write_history` wrote. Raises InputError if it holds no job."""
        table = pq.read_table(path, columns=["submit", "end"])
        if not table.num_rows:
            raise InputError("the stored history has no job in the weeks that are learned from")
        submit, end = (
            table[name].combine_chunks().fill_null(-1).to_numpy() for name in ("submit", "end")
        )
        return cls.from_columns(submit.astype(np.int64), end.astype(np.int64))

    @property
    def days(self) -> int:
        return max(1, round((self.until - self.since) / DAY_S))

    def list_sentences(self) -> list[str]:
        """Describe the history in sentences."""
        sentences = [
            f"The history has {self.jobs:,} jobs of {self.days} days, {_format_day(self.since)} to "
            f"{_format_day(self.until)}."
        ]
        if self.gaps:
            spans = ", ".join(map(str, self.gaps))
            sentences.append(f"No job is stored of {spans}: these days are not learned from.")
        if self.unaccounted:
            spans = ", ".join(map(str, self.unaccounted))
            sentences.append(
                f"Most jobs of {spans} have no end, since accounting was not read: these days are "
                "not learned from."
            )
        return sentences

    def build_document(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "since": self.since,
            "until": self.until,
            "gaps": [[span.since, span.until] for span in self.gaps],
            "unaccounted": [[span.since, span.until] for span in self.unaccounted],
            "sentences": self.list_sentences(),
        }


@dataclass(frozen=True, slots=True)
class ReplayedWeek:
    """Start points of one ISO week; the first week of a history may begin late."""

    since: int
    until: int

    @property
    def name(self) -> str:
        """2026-W05; `+N` after it for a week that begins N days late."""
        year, week, _ = datetime.fromtimestamp(self.since, UTC).isocalendar()
        late = (self.since - _find_monday(self.since)) // DAY_S
        return f"{year}-W{week:02}" + (f"+{late}" if late else "")


def list_weeks(facts: HistoryFacts, time_limit_s: int, most: int) -> list[ReplayedWeek]:
    """List the weeks that can be replayed for pairs of that time limit, at most `most`, newest
    first.

    A week needs the jobs of six days before it, so that a queue has built up, and those of two time
    limits after it, since its last hand-overs wait among them. A week near a gap has them not.
    """
    since = round_to_midnight(facts.since + LEAD_IN_S)
    holes = (*facts.gaps, *facts.unaccounted)
    weeks: list[ReplayedWeek] = []
    monday = find_covered_until(facts.until, time_limit_s) - WEEK_S
    while monday + WEEK_S > since and len(weeks) < most:
        week = ReplayedWeek(max(monday, since), monday + WEEK_S)
        needed = (week.since - LEAD_IN_S, week.until + 2 * time_limit_s)
        if not any(hole.overlaps(*needed) for hole in holes):
            weeks.append(week)
        monday -= WEEK_S
    return weeks


def find_covered_until(last: int, time_limit_s: int) -> int:
    """Find until when whole weeks can be replayed, if `last` is the last submission."""
    return _find_monday(last - 2 * time_limit_s)


def count_days(weeks: Sequence[ReplayedWeek]) -> int:
    return sum(week.until - week.since for week in weeks) // DAY_S


def _find_monday(at: int) -> int:
    """Return the Monday, 0:00 UTC, at or before an instant."""
    return at - (at - _FIRST_MONDAY) % WEEK_S


def _list_runs(days: Flags, first: int, fewest: int) -> Iterator[Span]:
    """List the runs of at least `fewest` days; day 0 is `first` days after the epoch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], days, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2):
        if end - begin >= fewest:
            yield Span((first + int(begin)) * DAY_S, (first + int(end)) * DAY_S)


def _format_day(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
