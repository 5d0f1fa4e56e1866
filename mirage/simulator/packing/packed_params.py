"""Packs `Params` into the flat array that kernels read."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mirage.domain.arrays import Ints
from mirage.errors import ConfigError
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import FAR, FRACTION_BITS
from mirage.simulator.slurm_release import find_release
from mirage.simulator.state.node_selection import WORD
from mirage.simulator.types import OFF, NodeGroup, Params, Partition, Qos, SelectType


def count_words(params: Params) -> int:
    """Return the number of words of a bitmap of all nodes."""
    return max(1, -(-params.nodes // WORD))


def build_bitmap(nodes: Iterable[int], words: int) -> Ints:
    """Build the bitmap of a set of nodes, int64[words]."""
    bits = np.zeros(words, dtype=np.int64)
    for node in nodes:
        bits[node // WORD] |= 1 << (node % WORD)
    return bits


def list_node_groups(params: Params) -> tuple[NodeGroup, ...]:
    """Return the groups of equal nodes; one group if all nodes are equal."""
    if params.node_groups:
        return params.node_groups
    return (
        NodeGroup(
            count=params.nodes,
            cpus=params.cpus_per_node,
            memory_mib=params.memory_mib_per_node,
            gpus=params.gpus_per_node,
        ),
    )


def list_qos(params: Params) -> tuple[Qos, ...]:
    """Return the QOS; one with `max_jobs_pu` if none is configured."""
    return params.qos or (Qos(max_jobs_pu=params.max_jobs_pu),)


def list_partition_nodes(params: Params, partition: Partition) -> Sequence[int]:
    """Return the partition's node numbers."""
    return partition.nodes or range(params.nodes)


def get_max_time_s(partition: Partition, qos: Qos) -> int:
    """Return the longest time limit in seconds of a job in this partition and QOS; 0: any."""
    return 0 if qos.overrides_max_time else partition.max_time_s


def compute_least_resources(params: Params, partition: Partition) -> tuple[int, int, int]:
    """Return the CPUs, MiB and GPUs that each of the partition's nodes has at least."""
    sizes = [
        (g.cpus, g.memory_mib, g.gpus) for g in list_node_groups(params) for _ in range(g.count)
    ]
    cpus, memory, gpus = zip(
        *(sizes[n] for n in list_partition_nodes(params, partition)), strict=True
    )
    return min(cpus), min(memory), min(gpus)


def should_plan_by_name(params: Params) -> bool:
    """Return whether it matters which nodes are free, and not only how many.

    docs/reference/simulator.md 7 describes the difference.
    """
    all_have_all_nodes = all(
        len(list_partition_nodes(params, p)) == params.nodes for p in params.partitions
    )
    return (
        params.select_type is SelectType.CONS_TRES
        or not all_have_all_nodes
        or bool(params.reservations)
    )


def check_params(params: Params) -> None:
    """Check the parameters. Raises ConfigError, which lists every fault that would make the
    arrays meaningless."""
    faults = [fault for is_fault, fault in _list_faults(params) if is_fault]
    if faults:
        raise ConfigError(params.name, faults)


def _list_faults(params: Params) -> Iterator[tuple[bool, str]]:
    nodes, groups = params.nodes, params.node_groups
    yield nodes < 1, f"nodes: {nodes} is less than one"
    counts_match = not groups or sum(g.count for g in groups) == nodes
    yield not counts_match, "node groups: their counts do not sum to the nodes"
    yield not params.partitions, "partitions: there is none"
    numbers = range(nodes)
    for p in params.partitions:
        yield (
            any(n not in numbers for n in p.nodes),
            f"partition {p.name}: a node that is not there",
        )
    for r in params.reservations:
        yield (
            any(n not in numbers for n in r.nodes),
            f"reservation {r.name}: a node that is not there",
        )
        yield r.end <= r.start, f"reservation {r.name}: ends before it starts"
    for key, interval in (
        ("sched_interval", params.sched_interval_s),
        ("bf_interval", params.bf_interval_s),
    ):
        yield interval < 1 and interval != OFF, f"{key}: {interval} is neither 1 or more nor -1"
    has_unknown_node = any(e.node not in numbers for e in params.node_events)
    yield has_unknown_node, "node events: a node that is not there"


def pack_params(params: Params, images: Ints) -> Ints:
    """Build the site: the header and the sections of layout.py. Raises ConfigError."""
    check_params(params)
    scalars = np.zeros(layout.SITE_HEADER, dtype=np.int64)
    words = count_words(params)
    scalars[layout.SITE_NODES] = params.nodes
    scalars[layout.SITE_WORDS] = words
    scalars[layout.SITE_RELEASE] = find_release(params.slurm_version)
    scalars[layout.SITE_BY_NAME] = should_plan_by_name(params)
    scalars[layout.SITE_SHARED] = params.select_type is SelectType.CONS_TRES
    scalars[layout.SITE_RATE] = (params.priority_weight_age << FRACTION_BITS) // max(
        1, params.priority_max_age_s
    )
    scalars[layout.SITE_MAX_AGE] = params.priority_max_age_s
    scalars[layout.SITE_ACCRUE] = params.accrue_always
    scalars[layout.SITE_FAIR_WEIGHT] = params.priority_weight_fairshare << FRACTION_BITS
    scalars[layout.SITE_HALF_LIFE] = params.priority_decay_half_life_s
    scalars[layout.SITE_CALC_PERIOD] = params.priority_calc_period_s
    scalars[layout.SITE_SCHED_INTERVAL] = params.sched_interval_s
    scalars[layout.SITE_DEPTH] = params.default_queue_depth
    scalars[layout.SITE_BF_INTERVAL] = params.bf_interval_s
    scalars[layout.SITE_BF_WINDOW] = params.bf_window_s
    scalars[layout.SITE_BF_RESOLUTION] = params.bf_resolution_s
    scalars[layout.SITE_BF_TEST] = params.bf_max_job_test
    scalars[layout.SITE_BF_USER] = params.bf_max_job_user
    scalars[layout.SITE_OVER_TIME] = params.over_time_limit_s
    scalars[layout.SITE_PARTITIONS] = len(params.partitions)
    scalars[layout.SITE_QOS] = len(list_qos(params))
    scalars[layout.SITE_RESERVATIONS] = len(params.reservations)
    scalars[layout.SITE_UNEQUAL] = (
        len({(g.cpus, g.memory_mib, g.gpus) for g in list_node_groups(params)}) > 1
    )
    limits = _build_qos_limits(params)
    scalars[layout.SITE_LIMITS] = bool((limits < FAR).any())
    return pack_sections(
        scalars, [*_build_sections(params, words, limits), images], layout.PARTITION_BITS
    )


def pack_sections(header: Ints, sections: Sequence[Ints], first: int) -> Ints:
    """Join header and sections into one array. The header gets the place where each section begins,
    from its place `first` on, and the place where the last one ends."""
    place = len(header)
    for i, part in enumerate(sections):
        header[first + i] = place
        place += len(part)
    header[first + len(sections)] = place
    return np.concatenate([header, *sections])


def _build_sections(params: Params, words: int, limits: Ints) -> list[Ints]:
    groups = list_node_groups(params)
    all_nodes = range(params.nodes)
    tiers = sorted({p.priority_tier for p in params.partitions})
    bits = [build_bitmap(list_partition_nodes(params, p), words) for p in params.partitions]
    reservation_bits = [build_bitmap(r.nodes or all_nodes, words) for r in params.reservations]
    spans = [t for r in params.reservations for t in (r.start, r.end)]
    empty = np.zeros(0, dtype=np.int64)
    return [
        np.concatenate(bits),
        limits.reshape(-1),
        np.array(spans, dtype=np.int64),
        np.concatenate(reservation_bits) if reservation_bits else empty,
        _repeat_per_node([g.cpus for g in groups], groups),
        _repeat_per_node([g.memory_mib or FAR for g in groups], groups),
        _repeat_per_node([g.gpus for g in groups], groups),
        np.array([tiers.index(p.priority_tier) for p in params.partitions], dtype=np.int64),
        np.array(
            [compute_least_resources(params, p) for p in params.partitions], dtype=np.int64
        ).reshape(-1),
    ]


def _repeat_per_node(values: Sequence[int], groups: Sequence[NodeGroup]) -> Ints:
    return np.repeat(np.array(values, dtype=np.int64), [g.count for g in groups])


def _build_qos_limits(params: Params) -> Ints:
    """Build one row of limits for each QOS, in the order of USE's columns."""
    rows = []
    for q in list_qos(params):
        row = [q.max_jobs_pu, q.max_submit_pu, q.max_cpus_pu, q.max_memory_mib_pu]
        row += [q.max_gpus_pu, q.max_nodes_pu]
        rows.append([n or FAR for n in row])
    return np.array(rows, dtype=np.int64)
