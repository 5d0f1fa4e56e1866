"""slurmrestd's `/slurm/<version>/nodes`: the nodes, in sinfo's words."""

from collections.abc import Mapping
from typing import Any

from mirage.domain.snapshot import Node
from mirage.errors import MalformedText
from mirage.slurm.rest.envelope import Payload, each, mapping, needed, number, sequence, text, words
from mirage.slurm.text.gres import gpu_count
from mirage.slurm.text.unread_rows import Unread, UnreadRow, shown, strict

_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_IN_ORDER = ("DOWN", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED", "IDLE")
"""sinfo's word is the first of these that a node is, once nothing takes it out of service."""


def parse(answer: Any, unread: Unread | None = None) -> tuple[Node, ...]:
    """The nodes. Those that do not read are added to `unread`; without it, or where they are many,
    MalformedText is raised."""
    left_out = strict() if unread is None else unread
    told = each(answer, "nodes")
    found = left_out.read(told, _node, _named)
    left_out.check(len(told))
    return tuple(found)


def state_of(found: tuple[str, ...]) -> str:
    """One word for a state and its flags, as `sinfo -o %T` says it."""
    flags = frozenset(found)
    busy = bool(flags & _BUSY)
    if "MAINTENANCE" in flags and not flags & {"DRAIN", "ALLOCATED", "MIXED", "DOWN"}:
        return "maint"
    if "DRAIN" in flags:
        return "draining" if busy else "drained"
    if "FAIL" in flags:
        return "failing" if busy else "fail"
    return next((word.lower() for word in _IN_ORDER if word in flags), "unknown")


def _named(value: Any) -> UnreadRow:
    return UnreadRow(f"node {shown(value.get('name') if isinstance(value, Mapping) else value)}")


def _node(value: Any) -> Node:
    return _read(mapping(value))


def _read(payload: Payload) -> Node:
    # One word with flags beside it in v0.0.38, one list later on.
    found = words(payload.get("state")) + words(payload.get("state_flags"))
    if not found:
        raise MalformedText("without a state: half an answer")
    return Node(
        name=_name(payload),
        partitions=tuple(text(name) for name in sequence(payload.get("partitions"))),
        state=state_of(found),
        cpus=needed(payload, "cpus"),
        cpus_used=number(payload.get("alloc_cpus")) or 0,
        gpus=gpu_count(text(payload.get("gres"))),
        gpus_used=gpu_count(text(payload.get("gres_used"))),
    )


def _name(payload: Payload) -> str:
    found = text(payload.get("name"))
    if not found:
        raise MalformedText("without a name: half an answer")
    return found
