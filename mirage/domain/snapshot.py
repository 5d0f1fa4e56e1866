"""What the cluster looked like at one instant: columns, not objects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.job import Job, JobId, JobState

UNKNOWN = -1
"""In integer columns: not known, or not yet."""

Ints = NDArray[np.int64]
Texts = NDArray[np.object_]

_INTS: tuple[str, ...] = ("job_id", "uid", "priority", "submit", "eligible", "start", "end")
_INTS += ("time_limit_s", "nodes", "cpus", "gpus")
_TEXTS: tuple[str, ...] = ("user", "account", "partition", "qos", "name", "state", "reason")
_TEXTS += ("dependency", "node_list", "comment")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Every job Slurm knows at `taken_at`: pending, running, and ended within MinJobAge.

    Columns have equal length; they mean what the fields of `Job` mean. `state` holds JobState.
    """

    taken_at: int
    job_id: Ints
    uid: Ints
    priority: Ints
    submit: Ints
    eligible: Ints
    start: Ints
    end: Ints
    time_limit_s: Ints
    nodes: Ints
    cpus: Ints
    gpus: Ints
    user: Texts
    account: Texts
    partition: Texts
    qos: Texts
    name: Texts
    state: Texts
    reason: Texts
    dependency: Texts
    node_list: Texts
    comment: Texts
    unread: frozenset[JobId] = frozenset()
    """Jobs that are there, and of which Slurm's row does not read: they are in no column."""

    @classmethod
    def of(cls, taken_at: int, jobs: Iterable[Job], unread: frozenset[JobId] = frozenset()) -> Self:
        """Columns of `jobs`, in their order."""
        rows = list(jobs)
        columns: dict[str, Any] = {
            name: np.array(
                [UNKNOWN if (v := getattr(j, name)) is None else v for j in rows], dtype=np.int64
            )
            for name in _INTS
        }
        for name in _TEXTS:
            column = np.empty(len(rows), dtype=object)
            column[:] = [getattr(j, name) for j in rows]
            columns[name] = column
        return cls(taken_at=taken_at, unread=unread, **columns)

    def __len__(self) -> int:
        return len(self.job_id)

    def __iter__(self) -> Iterator[Job]:
        return (self.row(i) for i in range(len(self)))

    def row(self, i: int) -> Job:
        """The i-th job. Array marks and submit lines are not kept in columns.

        A tick asks about the same few jobs again and again.
        """
        if i not in self._made:
            self._made[i] = self._row(i)
        return self._made[i]

    def _row(self, i: int) -> Job:
        ints = {n: int(getattr(self, n)[i]) for n in _INTS}
        optional: dict[str, Any] = {
            n: None if v == UNKNOWN else v
            for n, v in ints.items()
            if n not in {"job_id", "submit", "nodes", "cpus", "gpus"}
        }
        return Job(
            job_id=JobId(ints["job_id"]),
            submit=ints["submit"],
            nodes=ints["nodes"],
            cpus=ints["cpus"],
            gpus=ints["gpus"],
            **optional,
            **{n: getattr(self, n)[i] for n in _TEXTS},
        )

    def find(self, job_id: JobId) -> Job | None:
        """The job of that id, or None: not in this answer (which is not yet "gone")."""
        i = self.place(job_id)
        return None if i is None else self.row(i)

    def place(self, job_id: int) -> int | None:
        """Which row it is."""
        return self._places.get(int(job_id))

    @cached_property
    def _made(self) -> dict[int, Job]:
        return {}

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(job_id): i for i, job_id in enumerate(self.job_id)}

    @cached_property
    def pending(self) -> NDArray[np.bool_]:
        return np.array([s.waiting for s in self.state], dtype=bool)

    @cached_property
    def running(self) -> NDArray[np.bool_]:
        """Working jobs; those that only complete are left out."""
        working = [s.running and s is not JobState.COMPLETING for s in self.state]
        return np.array(working, dtype=bool)


class Records(list[Job]):
    """What accounting tells of some jobs."""

    def __init__(self, jobs: Iterable[Job] = (), unread: frozenset[JobId] = frozenset()) -> None:
        super().__init__(jobs)
        self.unread = unread
        """Jobs that accounting knows, and of which a record does not read."""

    @classmethod
    def joined(cls, several: Iterable["Records"], wanted: Iterable[JobId]) -> "Records":
        """Those of the jobs in `wanted`: the id of an array brings all its tasks."""
        ids, answers = frozenset(wanted), list(several)
        unread = ids & frozenset(job_id for one in answers for job_id in one.unread)
        return cls((job for one in answers for job in one if job.job_id in ids), unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: what it has and what of it is given away."""

    name: str
    partitions: tuple[str, ...]
    state: str
    """Slurm's word in lower case, without flags: idle, mixed, allocated, drained, down, ..."""
    cpus: int
    cpus_used: int
    gpus: int
    gpus_used: int

    @property
    def usable(self) -> bool:
        return self.state in {"idle", "mixed", "allocated", "completing", "planned"}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Queue and nodes together; nodes are asked for less often and may be some minutes older."""

    queue: Queue
    nodes: tuple[Node, ...]

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}
