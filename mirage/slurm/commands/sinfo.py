"""sinfo: the nodes. Per-node lines (-N), one for each partition of a node.

No field holds what users write, so the separator needs no secret; reasons are not asked for.
"""

import re
from dataclasses import replace

from mirage.domain.snapshot import Node
from mirage.errors import MalformedText
from mirage.slurm.text.delimited_rows import (
    SEPARATOR,
    Row,
    parse_integer,
    parse_name,
    split_intact_rows,
)
from mirage.slurm.text.gres import count_gpus
from mirage.slurm.text.unread_rows import Unread, UnreadRow, make_strict_unread, quote_cell

FIELDS = ("NodeList", "PartitionName", "StateLong", "CPUsState", "Gres", "GresUsed")

_STATE = re.compile(r"[a-z_]+")
"""A node state without the flags that follow it: `*~#$@+!%-^` (sinfo(1), NODE STATE CODES)."""
_NO_PARTITION = frozenset({"", "N/A"})


def build_argv() -> list[str]:
    fields = ",".join(f"{name}:{SEPARATOR}" for name in FIELDS)
    options = ["--noheader", "--all", "--local", "--noconvert", "--Node"]
    return ["sinfo", *options, f"--Format={fields}"]


def parse_nodes(answer: str, unread: Unread | None = None) -> tuple[Node, ...]:
    """Parse the nodes, each one once, with all its partitions.

    Rows that cannot be parsed are added to `unread`. Raises MalformedText if there is no `unread`,
    or if such rows are too many.
    """
    rejects = make_strict_unread() if unread is None else unread
    rows = split_intact_rows(answer, FIELDS, rejects, row_kind="node")
    parsed = rejects.parse_rows(rows, _parse_node, _name_node)
    rejects.check_share(None for _ in parsed)
    nodes: dict[str, Node] = {}
    for node in parsed:
        first = nodes.setdefault(node.name, node)
        partitions = tuple(dict.fromkeys(first.partitions + node.partitions))
        nodes[node.name] = replace(first, partitions=partitions)
    return tuple(nodes.values())


def _name_node(row: Row) -> UnreadRow:
    return UnreadRow(f"node {quote_cell(row['NodeList'])}")


def _parse_node(row: Row) -> Node:
    partition = parse_name(row["PartitionName"])
    allocated, _, _, total = _parse_cpus(row["CPUsState"])
    return Node(
        name=_parse_node_name(row["NodeList"]),
        partitions=() if partition in _NO_PARTITION else (partition,),
        state=_parse_state(row["StateLong"]),
        cpus=total,
        cpus_used=allocated,
        gpus=count_gpus(row["Gres"]),
        gpus_used=count_gpus(row["GresUsed"]),
    )


def _parse_node_name(cell: str) -> str:
    if not parse_name(cell):
        raise MalformedText("without a name")
    return cell


def _parse_state(cell: str) -> str:
    match = _STATE.match(cell.lower())
    if match is None:
        raise MalformedText(f"not a node state: {cell!r}")
    return match[0]


def _parse_cpus(cell: str) -> tuple[int, int, int, int]:
    """Parse the numbers of allocated, idle, other and all CPUs."""
    parts = [parse_integer(part) for part in cell.split("/")]
    if len(parts) != len("AIOT"):
        raise MalformedText(f"not CPUs as allocated/idle/other/total: {cell!r}")
    return parts[0], parts[1], parts[2], parts[3]
