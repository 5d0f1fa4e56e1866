"""Heterogeneous jobs: Slurm lists each component as a job of its own; Mirage sees one job.

Slurm starts, moves and cancels the components together, through the leader (component 0).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirage.domain.job import Job, JobId
from mirage.slurm.text.unread_rows import Unread, UnreadRow

Component = tuple[Job, JobId | None]
"""A job, and the id of its leader; None: it is not heterogeneous."""


def drop_incomplete_jobs(found: Sequence[Component], unread: Unread) -> Sequence[Component]:
    """Return the jobs without heterogeneous ones of which a component could not be read, as these
    would look too small."""
    torn = unread.job_ids
    if not torn:
        return found
    for job, leader in found:
        if leader in torn:
            unread.add_row(UnreadRow(f"job '{job.job_id}'", "", leader), "another component of it")
    return [(job, leader) for job, leader in found if leader not in torn]


def merge_components(jobs: Iterable[Component]) -> list[Job]:
    """Each job with its leader's id -> leaders with all resources.

    A component whose leader is not in the list stays as it is.
    """
    kept: list[Job] = []
    place: dict[JobId, int] = {}
    components: list[tuple[Job, JobId]] = []
    for job, leader in jobs:
        if leader is None or leader == job.job_id:
            if leader is not None:
                place[leader] = len(kept)
            kept.append(job if leader is None else replace(job, heterogeneous=True))
        else:
            components.append((job, leader))
    for job, leader in components:
        at = place.get(leader)
        if at is None:
            kept.append(job)
        else:
            kept[at] = _add_component(kept[at], job)
    return kept


def _add_component(leader: Job, component: Job) -> Job:
    lists = filter(None, (leader.node_list, component.node_list))
    return replace(
        leader,
        nodes=leader.nodes + component.nodes,
        cpus=leader.cpus + component.cpus,
        gpus=None
        if leader.gpus is None or component.gpus is None
        else leader.gpus + component.gpus,
        node_list=",".join(lists),
    )
