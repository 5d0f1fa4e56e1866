"""Converts reservations to the simulator's, which keep whole nodes between two fixed times."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from mirage.history.site_import.node_numbers import map_node_numbers
from mirage.history.site_import.notes import SiteNote, match_period
from mirage.simulator.types import Reservation
from mirage.slurm.commands.scontrol_show import NodeRecord, PartitionRecord, ReservationRecord

_REPEATING_FLAGS = frozenset({"DAILY", "HOURLY", "WEEKLY", "WEEKDAY", "WEEKEND"})
_NOT_SIMULATED = _REPEATING_FLAGS | {"FLEX", "MAGNETIC"}
_FLOATING_FLAG = "TIME_FLOAT"
_FLOATING_SENTENCE = (
    f"has no fixed start ({_FLOATING_FLAG}: it moves on with the clock), which is not simulated"
)


def convert_reservations(
    records: Sequence[ReservationRecord],
    nodes: Sequence[NodeRecord],
    partitions: Sequence[PartitionRecord],
    zone: tzinfo | None,
    notes: list[str],
) -> tuple[Reservation, ...]:
    """Return the reservations that can be simulated. `notes` gets a sentence on each other one."""
    numbers_by_name = {node.name: number for number, node in enumerate(nodes)}
    reservations = []
    for record in records:
        numbers = map_node_numbers(
            record.nodes, numbers_by_name, f"reservation {record.name}", notes
        )
        start, end = _parse_instant(record.start, zone), _parse_instant(record.end, zone)
        if start is None or end is None or end <= start or not numbers:
            notes.append(
                f"Reservation {record.name} has no nodes, or no times that read: left out."
            )
            continue
        if _FLOATING_FLAG in record.flags:
            notes.append(f"Reservation {record.name} {_FLOATING_SENTENCE}: left out.")
            continue
        concerns = match_period(start, end, _find_partitions(record, partitions))
        if part := _describe_part(record, [nodes[n] for n in numbers]):
            notes.append(SiteNote(f"Reservation {record.name} {part}: left out.", concerns))
            continue
        notes += [SiteNote(sentence, concerns) for sentence in _list_unsimulated(record)]
        reservations.append(Reservation(name=record.name, start=start, end=end, nodes=numbers))
    return tuple(reservations)


def _find_partitions(record: ReservationRecord, partitions: Sequence[PartitionRecord]) -> list[str]:
    return [p.name for p in partitions if not set(record.nodes).isdisjoint(p.nodes)]


def _describe_part(record: ReservationRecord, nodes: Sequence[NodeRecord]) -> str:
    """Tell how many CPUs a reservation of a part of its nodes keeps; empty for others."""
    all_cpus, reserved_cpus = sum(node.cpus for node in nodes), _count_reserved_cpus(record, nodes)
    if reserved_cpus is None or reserved_cpus >= all_cpus:
        return ""
    return f"keeps {reserved_cpus} of the {all_cpus} CPUs of its nodes, and parts are not simulated"


def _count_reserved_cpus(record: ReservationRecord, nodes: Sequence[NodeRecord]) -> int | None:
    """Return the CPUs that the reservation keeps, by its cores if it shows no CPUs; None: not
    known."""
    if record.cpus is not None or record.cores is None:
        return record.cpus
    return record.cores * max(node.threads_per_core for node in nodes)


def _list_unsimulated(record: ReservationRecord) -> Iterator[str]:
    if record.beneficiaries:
        yield f"Reservation {record.name} is for {record.beneficiaries}: here its nodes stay empty."
    if flags := sorted(record.flags & _NOT_SIMULATED):
        yield f"Not simulated of reservation {record.name}: {', '.join(flags)}."


def _parse_instant(text: str, zone: tzinfo | None) -> int | None:
    """Convert epoch seconds or local time to epoch seconds; None: the text is neither."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        wall = datetime.fromisoformat(text)
        return int((wall if wall.tzinfo else wall.replace(tzinfo=zone)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None
