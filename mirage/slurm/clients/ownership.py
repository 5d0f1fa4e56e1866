"""Decides which users' jobs a move may touch."""

from mirage.domain.job import JobId
from mirage.errors import ClusterRefused


def refuse_another_owner(job_id: JobId, uid: int | None, owner: int) -> None:
    """Raise ClusterRefused if the job's owner `uid` is not the chain's, whatever its mark says."""
    if uid != owner:
        actual_owner = "an unknown user" if uid is None else f"uid {uid}"
        raise ClusterRefused(
            f"job {job_id} belongs to {actual_owner} but its chain to uid {owner}: "
            "the job is not touched"
        )
