"""Checks tables that are judged as one set: no hand-over may be in two of them.

The tables may be of different clusters.
"""

import json
from collections.abc import Sequence

from mirage.domain.arrays import Ints
from mirage.errors import InputError
from mirage.judging.table.metadata import TableMetadata


def check_distinct(table_metadata: Sequence[TableMetadata], start_points: Sequence[Ints]) -> None:
    """Raise InputError if two tables have the same hand-over, since it would count twice."""
    earlier_handovers: set[tuple[str, int]] = set()
    for metadata, points in zip(table_metadata, start_points, strict=True):
        handovers = {(metadata.pair, point) for point in points.tolist()}
        shared_count = len(earlier_handovers & handovers)
        if shared_count:
            raise InputError(
                f"{shared_count} hand-overs are in more than one table (same trace, cluster, pair "
                "and start point): give each once"
            )
        earlier_handovers |= handovers


def count_clusters(table_metadata: Sequence[TableMetadata]) -> int:
    """Count the different clusters of the tables: a cluster is its whole file."""
    return len({json.dumps(metadata.cluster, sort_keys=True) for metadata in table_metadata})
