"""A cluster that reports after each call that the service makes progress."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from mirage.domain.job import Job, JobId
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Node, Queue

T = TypeVar("T")


class HeartbeatCluster:
    """Implements `ports.Cluster`. `on_call` is called after each call, even if Slurm gave no
    answer: a slow or absent Slurm is no fault of the service."""

    def __init__(self, cluster: Cluster, on_call: Callable[[], None]) -> None:
        self._cluster, self._on_call = cluster, on_call

    def read_clock(self) -> int:
        return self._cluster.read_clock()

    def fetch_queue(self) -> Queue:
        return self._call_with_beat(self._cluster.fetch_queue)

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        return self._call_with_beat(lambda: self._cluster.fetch_jobs(job_ids))

    def fetch_nodes(self) -> tuple[Node, ...]:
        return self._call_with_beat(self._cluster.fetch_nodes)

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        return self._call_with_beat(lambda: self._cluster.fetch_history(since, until))

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        return self._call_with_beat(lambda: self._cluster.fetch_job_records(job_ids))

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        return self._call_with_beat(lambda: self._cluster.fetch_requested_nodes(job_ids))

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        move = partial(self._cluster.free_standby, standby, owner=owner)
        self._call_with_beat(
            lambda: move(
                dependency=dependency, unpin=unpin, expected_dependency=expected_dependency
            )
        )

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        move = partial(self._cluster.pin_standby, standby, owner=owner)
        self._call_with_beat(
            lambda: move(
                dependency=dependency, node_list=node_list, expected_dependency=expected_dependency
            )
        )

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        move = partial(self._cluster.set_dependency, standby, owner=owner)
        self._call_with_beat(
            lambda: move(
                dependency=dependency, unpin=unpin, expected_dependency=expected_dependency
            )
        )

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        self._call_with_beat(lambda: self._cluster.hold_job(standby, owner=owner))

    def release_job(self, standby: JobId, *, owner: int) -> None:
        self._call_with_beat(lambda: self._cluster.release_job(standby, owner=owner))

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        self._call_with_beat(lambda: self._cluster.cancel_job(job_id, owner=owner))

    def _call_with_beat(self, call: Callable[[], T]) -> T:
        try:
            return call()
        finally:
            self._on_call()
