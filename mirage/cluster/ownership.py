"""Decides which users' jobs a move may touch."""

from mirage.domain.job import JobId
from mirage.errors import ClusterRefused


def refuse_another_owner(job_id: JobId, uid: int | None, owner: int) -> None:
    """Whatever a chain's marks say: nobody's job is moved for somebody else's chain."""
    if uid != owner:
        whose = "nobody known" if uid is None else f"uid {uid}"
        raise ClusterRefused(
            f"job {job_id} is a job of {whose}, and its chain is uid {owner}'s: it is not touched"
        )
