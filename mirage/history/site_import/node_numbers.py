"""Converts node names of Slurm's answers to the simulator's numbers."""

from collections.abc import Mapping, Sequence

_MOST_NAMES = 8
"""The most names in one sentence, as a site may have hundreds."""


def map_node_numbers(
    names: Sequence[str], numbers_by_name: Mapping[str, int], owner: str, notes: list[str]
) -> tuple[int, ...]:
    """Return numbers, ascending, each once. Nodes that scontrol does not show are left out, with a
    note."""
    unknown = [name for name in names if name not in numbers_by_name]
    if unknown:
        notes.append(f"Nodes of {owner} that scontrol does not show: {format_some(unknown)}.")
    return tuple(sorted({numbers_by_name[name] for name in names if name in numbers_by_name}))


def format_some(names: Sequence[str]) -> str:
    unnamed_count = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (
        f" and {unnamed_count} more" if unnamed_count > 0 else ""
    )
