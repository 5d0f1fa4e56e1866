"""Detects answers that Slurm cannot have written, because they give one job two owners."""

from collections.abc import Hashable, Iterable, Iterator

from mirage.domain.job import Job, JobId
from mirage.errors import ForgedAnswer


def iter_job_owners(components: Iterable[tuple[Job, object]]) -> Iterator[tuple[JobId, int | None]]:
    """Iterate over job ids and their owners' uids (None: not known). `components` are pairs of a
    job and its leader."""
    return ((job.job_id, job.uid) for job, _ in components)


def refuse_two_owners(owners: Iterable[tuple[Hashable, int | None]]) -> None:
    """Raise ForgedAnswer if two users own the same job.

    `owners`: pairs of a job's unique key and its owner's uid; None: the owner is not known.
    """
    owner_by_job: dict[Hashable, int] = {}
    for job, uid in owners:
        if uid is not None and owner_by_job.setdefault(job, uid) != uid:
            raise ForgedAnswer(
                f"the answer gives job {job} to uid {owner_by_job[job]} and to uid {uid}: "
                "one of these rows is not Slurm's, and none is believed"
            )
