"""Snapshots of the cluster at one instant, as columns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints, Texts
from mirage.domain.job import Job, JobId, JobState

UNKNOWN = -1
"""The value for "not known" or "not yet" in integer columns."""


_INTEGERS: tuple[str, ...] = ("job_id", "submit", "nodes", "cpus", "memory_mib")
_OPTIONAL_INTEGERS: tuple[str, ...] = ("gpus", "uid", "priority", "eligible", "start", "end")
_OPTIONAL_INTEGERS += ("planned_start", "expected_end", "cancelled_at", "elapsed_s", "time_limit_s")
_FLAGS: tuple[str, ...] = ("array", "heterogeneous")
_TEXTS: tuple[str, ...] = ("user", "account", "partition", "qos", "name", "state", "reason")
_TEXTS += ("exit_code", "dependency", "node_list", "comment", "submit_line")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Every job Slurm knows at `taken_at`: pending, running, and ended within MinJobAge.

    Columns have equal length, and there is one for each field of `Job`. `state` holds JobState.
    """

    taken_at: int
    job_id: Ints
    uid: Ints
    priority: Ints
    submit: Ints
    eligible: Ints
    start: Ints
    end: Ints
    planned_start: Ints
    expected_end: Ints
    cancelled_at: Ints
    elapsed_s: Ints
    time_limit_s: Ints
    nodes: Ints
    cpus: Ints
    gpus: Ints
    memory_mib: Ints
    array: NDArray[np.bool_]
    heterogeneous: NDArray[np.bool_]
    user: Texts
    account: Texts
    partition: Texts
    qos: Texts
    name: Texts
    state: Texts
    reason: Texts
    exit_code: Texts
    dependency: Texts
    node_list: Texts
    comment: Texts
    submit_line: Texts
    unread: frozenset[JobId] = frozenset()
    """Jobs that exist but whose row could not be read. They are in no column."""

    @classmethod
    def from_jobs(
        cls, taken_at: int, jobs: Iterable[Job], unread: frozenset[JobId] = frozenset()
    ) -> Self:
        """Build the columns of `jobs`, in their order."""
        rows = list(jobs)
        columns: dict[str, Any] = {}
        for name in _FLAGS:
            columns[name] = np.array(list(map(attrgetter(name), rows)), dtype=bool)
        for name in _INTEGERS:
            columns[name] = np.array(list(map(attrgetter(name), rows)), dtype=np.int64)
        for name in _OPTIONAL_INTEGERS:
            values = map(attrgetter(name), rows)
            columns[name] = np.array([UNKNOWN if v is None else v for v in values], dtype=np.int64)
        for name in _TEXTS:
            columns[name] = column = np.empty(len(rows), dtype=object)
            column[:] = list(map(attrgetter(name), rows))
        return cls(taken_at=taken_at, unread=unread, **columns)

    def __len__(self) -> int:
        return len(self.job_id)

    def __iter__(self) -> Iterator[Job]:
        return (self.get_job(i) for i in range(len(self)))

    def get_job(self, i: int) -> Job:
        """Return the i-th job. Jobs are kept, as a tick reads the same few again and again."""
        if i not in self._built_jobs:
            self._built_jobs[i] = self._build_job(i)
        return self._built_jobs[i]

    def _build_job(self, i: int) -> Job:
        fields: dict[str, Any] = {n: int(getattr(self, n)[i]) for n in _INTEGERS}
        optional = ((n, int(getattr(self, n)[i])) for n in _OPTIONAL_INTEGERS)
        fields |= {n: None if v == UNKNOWN else v for n, v in optional}
        fields |= {n: getattr(self, n)[i] for n in _TEXTS}
        fields |= {n: bool(getattr(self, n)[i]) for n in _FLAGS}
        return Job(**fields)

    def find_job(self, job_id: int) -> Job | None:
        """Return the job with that id; None: it is not in this answer, which does not prove that it
        is gone."""
        i = self.find_row(job_id)
        return None if i is None else self.get_job(i)

    def find_row(self, job_id: int) -> int | None:
        """Return the job's row; None: the job is not in this answer."""
        return self._row_by_job.get(int(job_id))

    @cached_property
    def _built_jobs(self) -> dict[int, Job]:
        return {}

    @cached_property
    def _row_by_job(self) -> dict[int, int]:
        return {int(job_id): i for i, job_id in enumerate(self.job_id)}

    @cached_property
    def pending_mask(self) -> NDArray[np.bool_]:
        return np.array([s.is_waiting for s in self.state], dtype=bool)

    @cached_property
    def running_mask(self) -> NDArray[np.bool_]:
        """Return the running jobs without those that are only completing."""
        working = [s.is_running and s is not JobState.COMPLETING for s in self.state]
        return np.array(working, dtype=bool)


class Records(list[Job]):
    """Accounting's records of some jobs."""

    def __init__(self, jobs: Iterable[Job] = (), unread: frozenset[JobId] = frozenset()) -> None:
        super().__init__(jobs)
        self.unread = unread
        """Jobs that accounting knows, but of which a record could not be read."""

    @classmethod
    def join_records(cls, answers: Iterable["Records"], job_ids: Iterable[JobId]) -> "Records":
        """Return the records of the jobs in `wanted`. The id of an array brings all its tasks."""
        ids, answer_list = frozenset(job_ids), list(answers)
        unread = ids & frozenset(job_id for answer in answer_list for job_id in answer.unread)
        return cls((job for answer in answer_list for job in answer if job.job_id in ids), unread)


def compute_waits_s(start: Ints, submit: Ints, eligible: Ints) -> Ints:
    """Compute `job.compute_wait_s` of columns, int64[jobs] each; without a start, 0."""
    waits: Ints = np.where(start == UNKNOWN, 0, np.maximum(start - np.maximum(eligible, submit), 0))
    return waits


_OUT_OF_SERVICE = frozenset(
    ["down", "drain", "drained", "draining", "error", "fail", "failing", "inval", "maint"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: its resources, and how much of them jobs have."""

    name: str
    partitions: tuple[str, ...]
    state: str
    """Slurm's state in lower case, without flags: idle, mixed, allocated, drained, down, ..."""
    cpus: int
    cpus_used: int
    gpus: int
    gpus_used: int

    @property
    def is_usable(self) -> bool:
        return self.state in {"idle", "mixed", "allocated", "completing", "planned"}

    @property
    def is_out_of_service(self) -> bool:
        """True if no job starts there until an admin, or the end of a maintenance, brings the node
        back. False for an unknown state."""
        return self.state in _OUT_OF_SERVICE


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Queue and nodes together. Nodes are queried less often and may be some minutes older."""

    queue: Queue
    nodes: tuple[Node, ...]

    def count_free_nodes(self, partition: str) -> int:
        """Return how many usable nodes of the partition run nothing.

        "" means all partitions, and "a,b" means nodes of either.
        """
        names = set(partition.split(",")) if partition else set()
        return sum(
            node.is_usable
            and node.cpus_used == 0
            and (not names or not names.isdisjoint(node.partitions))
            for node in self.nodes
        )

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}
