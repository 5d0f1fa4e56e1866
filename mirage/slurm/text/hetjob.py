"""Heterogeneous jobs: Slurm lists each component as a job of its own; Mirage sees one job.

Slurm starts, moves and cancels the components together, through the leader (component 0).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirage.domain.job import Job, JobId
from mirage.slurm.text.unread_rows import Unread, UnreadRow

Component = tuple[Job, JobId | None]
"""A job, and the id of its leader; None: the job is not heterogeneous."""


def drop_incomplete_jobs(components: Sequence[Component], unread: Unread) -> Sequence[Component]:
    """Return the components without those of heterogeneous jobs that have an unread component.

    Such a job would look smaller than it is. Its other components are added to `unread`.
    """
    unread_ids = unread.job_ids
    if not unread_ids:
        return components
    for job, leader in components:
        if leader in unread_ids:
            unread.add_row(UnreadRow(f"job '{job.job_id}'", "", leader), "another component of it")
    return [(job, leader) for job, leader in components if leader not in unread_ids]


def merge_components(pairs: Iterable[Component]) -> list[Job]:
    """Merge each component into its leader, which then has the resources of the whole job.

    A component whose leader is not in the list stays as it is.
    """
    merged: list[Job] = []
    place_by_leader: dict[JobId, int] = {}
    components: list[tuple[Job, JobId]] = []
    for job, leader in pairs:
        if leader is None or leader == job.job_id:
            if leader is not None:
                place_by_leader[leader] = len(merged)
            merged.append(job if leader is None else replace(job, heterogeneous=True))
        else:
            components.append((job, leader))
    for job, leader in components:
        at = place_by_leader.get(leader)
        if at is None:
            merged.append(job)
        else:
            merged[at] = _add_component(merged[at], job)
    return merged


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
