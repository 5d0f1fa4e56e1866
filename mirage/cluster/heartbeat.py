"""A cluster that says after each answer that whoever asked gets on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue
from mirage.ports import Cluster

T = TypeVar("T")


class Attended:
    """Implements `ports.Cluster`. `beat` is called after each question, also after one without an
    answer: a Slurm that is slow or away is no fault of the service's."""

    def __init__(self, cluster: Cluster, beat: Callable[[], None]) -> None:
        self._cluster, self._beat = cluster, beat

    def now(self) -> int:
        return self._cluster.now()

    def queue(self) -> Queue:
        return self._told(self._cluster.queue)

    def nodes(self) -> tuple[Node, ...]:
        return self._told(self._cluster.nodes)

    def history(self, since: int, until: int) -> Iterator[Job]:
        return self._told(lambda: self._cluster.history(since, until))

    def jobs(self, job_ids: Sequence[JobId]) -> list[Job]:
        return self._told(lambda: self._cluster.jobs(job_ids))

    def asked_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        return self._told(lambda: self._cluster.asked_nodes(job_ids))

    def free(self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False) -> None:
        move = partial(self._cluster.free, standby, owner=owner)
        self._told(lambda: move(dependency=dependency, unpin=unpin))

    def pin(self, standby: JobId, *, owner: int, dependency: str, node_list: str) -> None:
        move = partial(self._cluster.pin, standby, owner=owner)
        self._told(lambda: move(dependency=dependency, node_list=node_list))

    def hold(self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False) -> None:
        move = partial(self._cluster.hold, standby, owner=owner)
        self._told(lambda: move(dependency=dependency, unpin=unpin))

    def suspend(self, standby: JobId, *, owner: int) -> None:
        self._told(lambda: self._cluster.suspend(standby, owner=owner))

    def resume(self, standby: JobId, *, owner: int) -> None:
        self._told(lambda: self._cluster.resume(standby, owner=owner))

    def cancel(self, job_id: JobId, *, owner: int) -> None:
        self._told(lambda: self._cluster.cancel(job_id, owner=owner))

    def _told(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        finally:
            self._beat()
