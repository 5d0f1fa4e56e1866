"""Builds the bodies of requests that move a standby through slurmrestd."""

from typing import Any

from mirage.slurm.restd.envelope import Dialect
from mirage.slurm.text.dependency import normalize_dependency


def build_update_body(dialect: Dialect, dependency: str, node_list: str | None) -> dict[str, Any]:
    """Build the body of a job's update. `node_list` None keeps the node list, empty text removes
    it."""
    body: dict[str, Any] = {"dependency": normalize_dependency(dependency)}
    if node_list is not None:
        if dialect.has_triples:
            # An empty list would leave the node list as it is, in silence (24.11, 26.05).
            body["required_nodes"] = [node_list]
        else:
            body["nodelist"] = node_list
    return body


def build_release_body() -> dict[str, Any]:
    """Build the body that releases a hold, whoever set it (22.05.8)."""
    return {"hold": False}
