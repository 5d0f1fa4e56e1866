"""Converts reservations to the simulator's, which keep whole nodes between two fixed times."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from mirage.history.site_import.node_numbers import map_node_numbers
from mirage.history.site_import.notes import SiteNote, match_period
from mirage.simulator.types import Reservation
from mirage.slurm.commands.scontrol_show import NodeRecord, PartitionRecord, ReservationRecord

_REPEATS = frozenset({"DAILY", "HOURLY", "WEEKLY", "WEEKDAY", "WEEKEND"})
_NOT_SIMULATED = _REPEATS | {"FLEX", "MAGNETIC"}
_FLOATS = "TIME_FLOAT"
_MOVES_ON = f"has no fixed start ({_FLOATS}: it moves on with the clock), which is not simulated"


def convert_reservations(
    shown: Sequence[ReservationRecord],
    nodes: Sequence[NodeRecord],
    partitions: Sequence[PartitionRecord],
    zone: tzinfo | None,
    notes: list[str],
) -> tuple[Reservation, ...]:
    """Return the reservations that can be simulated. `notes` gets a sentence on each other one."""
    number_of = {node.name: number for number, node in enumerate(nodes)}
    found = []
    for one in shown:
        numbers = map_node_numbers(one.nodes, number_of, f"reservation {one.name}", notes)
        start, end = _parse_instant(one.start, zone), _parse_instant(one.end, zone)
        if start is None or end is None or end <= start or not numbers:
            notes.append(f"Reservation {one.name} has no nodes, or no times that read: left out.")
            continue
        if _FLOATS in one.flags:
            notes.append(f"Reservation {one.name} {_MOVES_ON}: left out.")
            continue
        around = match_period(start, end, _find_partitions(one, partitions))
        if part := _describe_part(one, [nodes[n] for n in numbers]):
            notes.append(SiteNote(f"Reservation {one.name} {part}: left out.", around))
            continue
        notes += [SiteNote(said, around) for said in _list_unsimulated(one)]
        found.append(Reservation(name=one.name, start=start, end=end, nodes=numbers))
    return tuple(found)


def _find_partitions(one: ReservationRecord, partitions: Sequence[PartitionRecord]) -> list[str]:
    return [p.name for p in partitions if not set(one.nodes).isdisjoint(p.nodes)]


def _describe_part(one: ReservationRecord, nodes: Sequence[NodeRecord]) -> str:
    """Tell how many CPUs a reservation of a part of its nodes keeps; empty for others."""
    all_cpus, kept = sum(node.cpus for node in nodes), _count_reserved_cpus(one, nodes)
    if kept is None or kept >= all_cpus:
        return ""
    return f"keeps {kept} of the {all_cpus} CPUs of its nodes, and parts are not simulated"


def _count_reserved_cpus(one: ReservationRecord, nodes: Sequence[NodeRecord]) -> int | None:
    """Return the CPUs that the reservation keeps, by its cores if it shows no CPUs; None: not
    known."""
    if one.cpus is not None or one.cores is None:
        return one.cpus
    return one.cores * max(node.threads_per_core for node in nodes)


def _list_unsimulated(one: ReservationRecord) -> Iterator[str]:
    if one.beneficiaries:
        yield f"Reservation {one.name} is for {one.beneficiaries}: here its nodes stay empty."
    if flags := sorted(one.flags & _NOT_SIMULATED):
        yield f"Not simulated of reservation {one.name}: {', '.join(flags)}."


def _parse_instant(text: str, zone: tzinfo | None) -> int | None:
    """Convert epoch seconds or local time to epoch seconds; None: the text is neither."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        wall = datetime.fromisoformat(text)
        return int((wall if wall.tzinfo else wall.replace(tzinfo=zone)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
