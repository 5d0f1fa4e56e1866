"""slurmrestd's `/slurm/<version>/nodes`: the nodes, with sinfo's states."""

from collections.abc import Mapping
from typing import Any

from mirage.domain.snapshot import Node
from mirage.errors import MalformedText
from mirage.slurm.restd.envelope import (
    Payload,
    expect_list,
    expect_mapping,
    parse_number,
    parse_text,
    parse_words,
    require_items,
    require_number,
)
from mirage.slurm.text.gres import count_gpus
from mirage.slurm.text.unread_rows import Unread, UnreadRow, make_strict_unread, quote_cell

_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_STATES_BY_RANK = ("DOWN", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED", "IDLE")
"""The state of a node in service is the first of these that applies."""


def parse_nodes(answer: Any, unread: Unread | None = None) -> tuple[Node, ...]:
    """Parse the nodes. Unreadable records are added to `unread`.

    Raises MalformedText if `unread` is not given or if such records are many.
    """
    rejects = make_strict_unread() if unread is None else unread
    nodes = rejects.parse_rows(require_items(answer, "nodes"), _parse_node, _name_node)
    rejects.check_share(None for _ in nodes)
    return tuple(nodes)


def format_node_state(words: tuple[str, ...]) -> str:
    """Return one word for a state and its flags, as `sinfo -o %T` prints it."""
    flags = frozenset(words)
    is_busy = bool(flags & _BUSY)
    if "MAINTENANCE" in flags and not flags & {"DRAIN", "ALLOCATED", "MIXED", "DOWN"}:
        return "maint"
    if "DRAIN" in flags:
        return "draining" if is_busy else "drained"
    if "FAIL" in flags:
        return "failing" if is_busy else "fail"
    return next((word.lower() for word in _STATES_BY_RANK if word in flags), "unknown")


def _name_node(value: Any) -> UnreadRow:
    return UnreadRow(
        f"node {quote_cell(value.get('name') if isinstance(value, Mapping) else value)}"
    )


def _parse_node(value: Any) -> Node:
    return _build_node(expect_mapping(value))


def _build_node(payload: Payload) -> Node:
    # One word with flags beside it in v0.0.38, one list later on.
    words = parse_words(payload.get("state")) + parse_words(payload.get("state_flags"))
    if not words:
        raise MalformedText("without a state: half an answer")
    return Node(
        name=_require_name(payload),
        partitions=tuple(parse_text(name) for name in expect_list(payload.get("partitions"))),
        state=format_node_state(words),
        cpus=require_number(payload, "cpus"),
        cpus_used=parse_number(payload.get("alloc_cpus")) or 0,
        gpus=count_gpus(parse_text(payload.get("gres"))),
        gpus_used=count_gpus(parse_text(payload.get("gres_used"))),
    )


def _require_name(payload: Payload) -> str:
    name = parse_text(payload.get("name"))
    if not name:
        raise MalformedText("without a name: half an answer")
    return name
