"""What the live ingest reads out of a snapshot."""

import pytest

from mirage.domain.snapshot import Node
from mirage.history.ingest.live_ingest import count_free_nodes


def node(name: str, *partitions: str, state: str = "idle", cpus_used: int = 0) -> Node:
    return Node(
        name=name,
        partitions=partitions,
        state=state,
        cpus=8,
        cpus_used=cpus_used,
        gpus=0,
        gpus_used=0,
    )


NODES = (
    node("n1", "gpu"),
    node("n2", "gpu", "cpu"),
    node("n3", "cpu", "big"),
    node("n4", "gpu", state="mixed", cpus_used=1),
    node("n5", "gpu", state="drained"),
)


@pytest.mark.parametrize(
    ("partition", "free"),
    [("gpu", 2), ("cpu", 2), ("gpu,cpu", 3), ("big", 1), ("", 3), ("none", 0)],
)
def test_free_nodes_are_usable_empty_and_of_a_partition_asked_for(
    partition: str, free: int
) -> None:
    assert count_free_nodes(NODES, partition) == free
