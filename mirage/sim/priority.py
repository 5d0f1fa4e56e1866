"""Multifactor priority (age and job size) in exact integers.

Slurm's priority(t) = WA * min(1, age/MaxAge) + WS * nodes/N. Multiplied by N * MaxAge it is an
integer, and until some job's age reaches MaxAge the order of two jobs never changes: it is that of
the static `key`. Afterwards `order` sorts by the true priority. Ties go to the lower job id.
"""

from collections.abc import Callable

from mirage.sim.types import Entry, Params


def static_key(params: Params, age_from: int, nodes: int) -> int:
    """Ascending: the job with the lowest key comes first while nobody's age is at its maximum."""
    age = params.priority_weight_age * params.nodes * age_from
    size = params.priority_weight_job_size * params.priority_max_age_s * nodes
    return age - size


def age_from_key(params: Params, key: int, nodes: int) -> int:
    """The instant from which age counts, read back from the key; only where age weighs."""
    size = params.priority_weight_job_size * params.priority_max_age_s * nodes
    return (key + size) // (params.priority_weight_age * params.nodes)


def true_order(params: Params, now: int) -> Callable[[Entry], tuple[int, int]]:
    """The sort key of the true priority at `now`, age capped."""
    weight = params.priority_weight_age * params.nodes
    size = params.priority_weight_job_size * params.priority_max_age_s

    def key(entry: Entry) -> tuple[int, int]:
        age = min(params.priority_max_age_s, now - age_from_key(params, entry.key, entry.nodes))
        return -(weight * age + size * entry.nodes), entry.job_id

    return key


def value(params: Params, now: int, age_from: int, nodes: int) -> int:
    """The number squeue and sprio print."""
    age = min(params.priority_max_age_s, max(0, now - age_from))
    by_age = params.priority_weight_age * age / params.priority_max_age_s
    return int(by_age + params.priority_weight_job_size * nodes / params.nodes)
