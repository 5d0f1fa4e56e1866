"""Notes about a site for the head of its cluster file, with the number of jobs concerned."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Self

from mirage.domain.job import Job, JobState

Concerns = Callable[[Job], bool]


class SiteNote(str):
    """A sentence with a predicate for the jobs that it concerns. Other notes are plain `str`."""

    __slots__ = ("concerns",)
    concerns: Concerns

    def __new__(cls, text: str, concerns: Concerns) -> Self:
        note = super().__new__(cls, text)
        note.concerns = concerns
        return note


def add_job_counts(notes: Sequence[str], jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return the sentences. Each `SiteNote` gets the number of `jobs` that it concerns."""
    countable = [note for note in notes if isinstance(note, SiteNote)]
    counts: Counter[str] = Counter()
    total = 0
    for job in jobs:
        total += 1
        counts.update(note for note in countable if note.concerns(job))
    return tuple(
        f"{note.removesuffix('.')} ({counts[note]:,} of {total:,} jobs of the log)."
        if isinstance(note, SiteNote)
        else note
        for note in notes
    )


def match_partition(*names: str) -> Concerns:
    """Match jobs that could run in one of these partitions."""
    return lambda job: not set(names).isdisjoint(job.partition.split(","))


def match_qos(name: str) -> Concerns:
    return lambda job: job.qos == name


def match_users(users: Collection[str], accounts: Collection[str]) -> Concerns:
    return lambda job: job.user in users or job.account in accounts


def match_period(start: int, end: int, partitions: Sequence[str]) -> Concerns:
    """Match jobs of these partitions that waited or ran in [start, end), epoch seconds."""
    is_in_partitions = match_partition(*partitions)
    return lambda job: (
        job.submit < end and (job.end is None or job.end > start) and is_in_partitions(job)
    )


def is_preempted(job: Job) -> bool:
    return job.state is JobState.PREEMPTED
