"""Detects answers that Slurm cannot have written: a job has only one owner."""

from collections.abc import Hashable, Iterable, Iterator

from mirage.domain.job import Job, JobId
from mirage.errors import ForgedAnswer


def iter_job_owners(found: Iterable[tuple[Job, object]]) -> Iterator[tuple[JobId, int | None]]:
    """Iterate over the ids and owners (uid or None) of jobs, each given beside its leader."""
    return ((job.job_id, job.uid) for job, _ in found)


def refuse_two_owners(owners: Iterable[tuple[Hashable, int | None]]) -> None:
    """Raise ForgedAnswer where the same job is said to be of two users.

    `owners`: a job, by whatever names it once, and its owner's uid; None is not known.
    """
    known: dict[Hashable, int] = {}
    for job, uid in owners:
        if uid is not None and known.setdefault(job, uid) != uid:
            raise ForgedAnswer(
                f"the answer gives job {job} to uid {known[job]} and to uid {uid}: one of these "
                "rows is not Slurm's, and none is believed"
            )
