"""Nodes of the simulated cluster that go down and come back."""

from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.simulator.types import Outage


def set_node_outage(cluster: SimulatedCluster, name: str, outage: Outage) -> None:
    """A node goes down, drains or comes back now."""
    numbers = {node.name: number for number, node in enumerate(cluster.fetch_nodes())}
    cluster.simulator.set_node(numbers[name], outage)
