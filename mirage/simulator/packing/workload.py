"""Packs a workload into arrays, one row for each job. All simulators and forks share the arrays."""

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import FAR, FRACTION_BITS, NONE, OWN_FIELDS, RECORD
from mirage.simulator.packing.name_table import NameTable
from mirage.simulator.packing.packed_params import (
    check_params,
    compute_least_resources,
    get_max_time_s,
    list_node_groups,
    list_partition_nodes,
    list_qos,
)
from mirage.simulator.types import Dependency, DependencyKind, Params, SelectType, SimJob

REFUSALS: Final = (
    "",
    "over MaxSubmitJobsPU",
    "no such partition",
    "no such QOS",
    "fewer than one node",
    "more nodes than the partition has",
    "more per node than enough nodes of the partition have",
    "time limit under one second",
    "time limit over the partition's MaxTime",
    "negative run time",
    "node list does not match",
    "job id is taken",
    "a number out of range",
)
"""Why a job is refused, by the number in its record's REFUSAL."""

_KINDS = {
    DependencyKind.AFTER: layout.ON_START,
    DependencyKind.AFTERANY: layout.ON_END,
    DependencyKind.AFTEROK: layout.ON_OK,
    DependencyKind.AFTERNOTOK: layout.ON_NOT_OK,
}
_LARGEST = 1 << 40
"""The largest number of a job. Ids and instants must fit into the bits that keys and ranks have for
them."""
_NOTHING: Final = (0, 0, 0)
_BLANK = [0] * RECORD
for _field in (layout.ROW, layout.ELIGIBLE, layout.START, layout.PIN, layout.ALLOCATED):
    _BLANK[_field] = NONE
K = TypeVar("K", bound=Hashable)


def _assign_number(table: dict[K, int], name: K) -> int:
    """Return the number of a name; a new name gets the next number."""
    return table.setdefault(name, len(table))


class RecordBuilder:
    """Builds the records of jobs of one cluster."""

    def __init__(self, params: Params) -> None:
        check_params(params)
        self.params = params
        self._partitions = {p.name: i for i, p in enumerate(params.partitions)}
        self._qos = {q.name: i for i, q in enumerate(list_qos(params))}
        self._members = [frozenset(list_partition_nodes(params, p)) for p in params.partitions]
        self._nodes_are_shared = params.select_type is SelectType.CONS_TRES
        groups = list_node_groups(params)
        self._capacity = [
            (g.cpus, g.memory_mib or FAR, g.gpus) for g in groups for _ in range(g.count)
        ]
        self._least = [compute_least_resources(params, p) for p in params.partitions]
        self._has_equal_nodes = len(set(self._capacity)) == 1
        self._large_enough: dict[tuple[int, int, int, int], int] = {}
        self._largest_factor = max(p.priority_job_factor for p in params.partitions)
        self._largest_qos_priority = max(q.priority for q in list_qos(params))

    def build_record(self, job: SimJob, names: NameTable, extras: list[int]) -> list[int]:
        """Build a job's record, [RECORD]. Its dependencies and node list are appended to `extras`,
        and new names are added to `names`.

        The record of a job that Slurm would refuse has the reason in REFUSAL.
        """
        partition = self._partitions.get(job.partition, NONE) if job.partition else 0
        qos = self._qos.get(job.qos, NONE) if job.qos else 0
        takes_whole_nodes = self._is_whole(job, partition)
        request = self._compute_request(job, takes_whole_nodes=takes_whole_nodes)
        refusal = self._find_refusal(job, partition, qos, request)
        partition, qos = max(partition, 0), max(qos, 0)
        user = _assign_number(names.users, job.user)
        # A user with only refused jobs is not in Slurm's fair tree.
        association = 0 if refusal else names.assign_association(job.account, job.user)
        if takes_whole_nodes and self._has_equal_nodes:
            request = _NOTHING
        kind = _assign_number(names.kinds, (takes_whole_nodes, request))
        image = list(_BLANK)
        image[layout.ID] = job.job_id
        image[layout.SUBMIT] = job.submit
        image[layout.NODES], image[layout.LIMIT] = job.nodes, job.time_limit_s
        image[layout.RUN] = job.run_s
        image[layout.ASSOCIATION] = association
        image[layout.PARTITION] = partition
        image[layout.QOS] = qos
        image[layout.CPUS], image[layout.MEMORY], image[layout.GPUS] = request
        image[layout.WHOLE] = int(takes_whole_nodes)
        image[layout.STATIC] = 0 if refusal else self._compute_static_priority(job, partition, qos)
        image[layout.BEGIN] = job.begin
        image[layout.CANCEL] = NONE if job.cancel_at is None else max(job.cancel_at, 0)
        image[layout.ANY_OF] = int(job.any_dependency)
        image[layout.HELD] = layout.USER_HOLDS if job.held else 0
        image[layout.FAILS] = int(job.fails)
        image[layout.REQUEUES] = int(job.requeue)
        image[layout.ARRAY] = _assign_number(names.arrays, job.array_id)
        image[layout.ARRAY_LIMIT] = job.array_limit if job.array_id else 0
        image[layout.KIND] = kind
        image[layout.SHAPE] = _assign_number(
            names.shapes, (kind, partition, job.nodes, job.time_limit_s)
        )
        image[layout.FORM] = _assign_number(names.forms, (kind, partition, job.time_limit_s))
        image[layout.CHARGE] = (
            job.nodes * (self._least[partition] if takes_whole_nodes else request)[0]
        )
        image[layout.USE_ROW] = _assign_number(names.use_rows, (job.user, qos))
        image[layout.EXTRA] = _append_extras(job, extras)
        image[layout.REFUSAL] = refusal
        image[layout.SHOWN_PRIORITY] = NONE if job.priority is None else job.priority
        image[layout.USER] = user
        return image

    def get_qos_number(self, name: str) -> int:
        """Return the number of a QOS in the site; the default's for an empty or unknown name."""
        return self._qos.get(name, 0) if name else 0

    def _is_whole(self, job: SimJob, partition: int) -> bool:
        if not self._nodes_are_shared or job.exclusive:
            return True
        return partition >= 0 and self.params.partitions[partition].exclusive

    def _compute_request(self, job: SimJob, *, takes_whole_nodes: bool) -> tuple[int, int, int]:
        """Return the CPUs, MiB and GPUs that each of the job's nodes must have; zeros under
        select/linear, which only counts nodes."""
        if not self._nodes_are_shared:
            return _NOTHING
        return (
            max(job.cpus, 0 if takes_whole_nodes else 1),
            max(job.memory_mib, 0),
            max(job.gpus, 0),
        )

    def _find_refusal(
        self, job: SimJob, partition: int, qos: int, request: tuple[int, int, int]
    ) -> int:
        reasons = (
            (partition < 0, 2),
            (qos < 0, 3),
            (job.nodes < 1, 4),
            (partition >= 0 and job.nodes > len(self._members[partition]), 5),
            (partition >= 0 and self._count_large_enough(partition, request) < job.nodes, 6),
            (job.time_limit_s < 1, 7),
            (partition >= 0 and qos >= 0 and self._is_too_long(job, partition, qos), 8),
            (job.run_s < 0, 9),
            (bool(job.node_list) and not self._is_node_list_valid(job, partition), 10),
            (not _is_in_range(job), 12),
        )
        return next((reason for fault, reason in reasons if fault), 0)

    def _count_large_enough(self, partition: int, request: tuple[int, int, int]) -> int:
        """Count the nodes of the partition that have what the job asks of one node."""
        key = (partition, *request)
        if key not in self._large_enough:
            self._large_enough[key] = sum(
                all(
                    capacity >= needed
                    for capacity, needed in zip(self._capacity[n], request, strict=True)
                )
                for n in self._members[partition]
            )
        return self._large_enough[key]

    def _is_too_long(self, job: SimJob, partition: int, qos: int) -> bool:
        longest_s = get_max_time_s(self.params.partitions[partition], list_qos(self.params)[qos])
        return bool(longest_s) and job.time_limit_s > longest_s

    def _is_node_list_valid(self, job: SimJob, partition: int) -> bool:
        numbers = set(job.node_list)
        return len(job.node_list) == len(numbers) == job.nodes and (
            partition < 0 or numbers <= self._members[partition]
        )

    def _compute_static_priority(self, job: SimJob, partition: int, qos: int) -> int:
        """Return the part of the priority that never changes, in fixed point
        (docs/reference/simulator.md 3)."""
        p = self.params
        size = p.nodes - job.nodes if p.priority_favor_small else job.nodes
        value = (p.priority_weight_job_size << FRACTION_BITS) * size // p.nodes
        if self._largest_factor > 0:
            factor = p.partitions[partition].priority_job_factor
            value += (p.priority_weight_partition << FRACTION_BITS) * factor // self._largest_factor
        if self._largest_qos_priority > 0:
            priority = list_qos(p)[qos].priority
            value += (
                (p.priority_weight_qos << FRACTION_BITS) * priority // self._largest_qos_priority
            )
        return value - (job.nice << FRACTION_BITS)


def _is_in_range(job: SimJob) -> bool:
    numbers: tuple[int, ...] = (
        job.job_id,
        job.submit,
        job.nodes,
        job.time_limit_s,
        job.run_s,
        job.cpus,
    )
    numbers += (job.memory_mib, job.gpus, job.begin, job.cancel_at or 0)
    return all(n < _LARGEST for n in numbers) and job.job_id >= 0 and job.submit >= 0


def encode_dependencies(dependencies: Iterable[Dependency]) -> list[int]:
    """Return kind, job id and delay in seconds of each dependency, one after the other."""
    return [n for kind, target, delay_s in dependencies for n in (_KINDS[kind], target, delay_s)]


def _append_extras(job: SimJob, extras: list[int]) -> int:
    if not job.dependencies and not job.node_list:
        return NONE
    place = len(extras)
    extras += [len(job.dependencies), *encode_dependencies(job.dependencies)]
    extras += [len(job.node_list), *sorted(job.node_list)]
    return place


class JobColumns(Sequence[SimJob]):
    """Jobs as one array for each field of SimJob. Objects of many jobs would take too much
    memory."""

    def __init__(self, **columns: NDArray[Any]) -> None:
        """Take the columns, [n] each. `submit` is required; without `job_id` jobs are numbered from
        1."""
        rows = len(columns["submit"])
        columns.setdefault("job_id", np.arange(1, rows + 1))
        order = np.lexsort((columns["job_id"], columns["submit"]))
        self._columns = {name: column[order] for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self._columns["submit"])

    @property
    def job_id(self) -> Ints:
        """The job ids, int64[rows]."""
        ids: Ints = self._columns["job_id"]
        return ids

    @overload
    def __getitem__(self, row: int) -> SimJob: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[SimJob]: ...
    def __getitem__(self, row: int | slice) -> SimJob | Sequence[SimJob]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return SimJob(**{name: column[row].item() for name, column in self._columns.items()})


class Workload:
    """Jobs by submission, then job id, as the engine reads them."""

    def __init__(self, recorder: RecordBuilder, jobs: Sequence[SimJob]) -> None:
        self.recorder = recorder
        self.jobs = _sort_jobs(jobs)
        self.names = NameTable(recorder.params)
        self.refused: dict[str, list[int]] = {}
        """Ids of the jobs that Slurm would refuse, by the reason."""
        extras, images = list[int](), dict[bytes, int]()
        is_repeated = _find_repeated_ids(self.jobs)
        self.feed: Ints = np.empty((len(self.jobs), 1 + len(OWN_FIELDS)), dtype=np.int64)
        for row, job in enumerate(self.jobs):
            image = recorder.build_record(job, self.names, extras)
            if is_repeated[row]:
                image[layout.REFUSAL] = REFUSALS.index("job id is taken")
            if image[layout.REFUSAL]:
                reason = REFUSALS[image[layout.REFUSAL]]
                self.refused.setdefault(reason, []).append(job.job_id)
            self.feed[row] = _split_image(_clamp_refused(image), images)
        self.extras: Ints = np.array(extras, dtype=np.int64)
        self.images: Ints = np.frombuffer(b"".join(images), dtype=np.int64)
        """The different records of the feed, without OWN_FIELDS, one after the other."""

    @classmethod
    def from_jobs(cls, params: Params, jobs: Iterable[SimJob]) -> Self:
        """Build the records of `jobs`. Jobs that Slurm would refuse are in `refused`."""
        return cls(RecordBuilder(params), jobs if isinstance(jobs, JobColumns) else list(jobs))

    def __len__(self) -> int:
        return len(self.jobs)

    def with_feed(self, feed: Ints) -> Self:
        """Return a workload with the same names and another feed, int64[rows, 1 + OWN_FIELDS]. The
        site must have the images of its rows."""
        copy = object.__new__(type(self))
        copy.__dict__ = {**self.__dict__, "feed": feed}
        return copy

    @property
    def job_id(self) -> Ints:
        """The job ids, int64[rows]."""
        ids: Ints = self.feed[:, 1 + OWN_FIELDS.index(layout.ID)]
        return ids

    @property
    def submit(self) -> Ints:
        """The submissions, int64[rows], ascending; epoch seconds."""
        instants: Ints = self.feed[:, layout.FEED_SUBMIT]
        return instants


def _sort_jobs(jobs: Sequence[SimJob]) -> Sequence[SimJob]:
    if isinstance(jobs, JobColumns):
        return jobs
    return tuple(sorted(_assign_ids(jobs), key=lambda j: (j.submit, j.job_id)))


def _find_repeated_ids(jobs: Sequence[SimJob]) -> NDArray[np.bool_]:
    """Return whether an earlier row has the same job id, bool[rows]."""
    if isinstance(jobs, JobColumns):
        ids: NDArray[Any] = jobs.job_id
    else:
        # An array of objects, since ids may be any integer: those out of range are refused later.
        ids = np.array([job.job_id for job in jobs], dtype=object)
    is_repeated = np.ones(len(jobs), dtype=bool)
    is_repeated[np.unique(ids, return_index=True)[1]] = False
    return is_repeated


def _split_image(image: list[int], images: dict[bytes, int]) -> list[int]:
    """Split a record into a row of the feed. `images` gives a number to the record without its
    OWN_FIELDS."""
    own_values = [image[field] for field in OWN_FIELDS]
    for field in OWN_FIELDS:
        image[field] = 0
    return [_assign_number(images, array("q", image).tobytes()), *own_values]


def _assign_ids(jobs: Sequence[SimJob]) -> list[SimJob]:
    """Give the next free ids to jobs without an id, in their order."""
    highest = max((j.job_id for j in jobs), default=0)
    numbers = count(highest + 1)
    return [j if j.job_id else replace(j, job_id=next(numbers)) for j in jobs]


def _clamp_refused(image: list[int]) -> list[int]:
    """Clamp the numbers of a refused job, since a number that is out of range must still fit into
    the array."""
    if image[layout.REFUSAL]:
        return [max(-_LARGEST, min(_LARGEST, n)) for n in image]
    return image
