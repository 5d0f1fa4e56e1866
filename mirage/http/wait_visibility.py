"""Limits what a reader may see of waits and partitions."""

from mirage.domain.access.caller import JOBS, NODES, PARTITIONS, Principal
from mirage.http.context import ApiContext
from mirage.services.forecasts.submission_forecast import PartitionBounds
from mirage.services.reports import wait_statistics


def get_minimum_jobs(reader: Principal) -> int:
    """Return from how many jobs on this reader may see waits."""
    return 1 if reader.can_see(JOBS) else wait_statistics.LEAST


def get_visible_bounds(given: ApiContext, reader: Principal, partition: str) -> PartitionBounds:
    """Return the facts about the partition that a refusal may show to this reader."""
    max_time_s = given.max_time_s.get(partition, 0) if reader.can_see(PARTITIONS) else 0
    return PartitionBounds(sees_nodes=reader.can_see(NODES), max_time_s=max_time_s)
