"""Converts Slurm's answers about a site to Params, with notes on all that is left out."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby
from typing import TypeVar

from mirage.errors import MalformedText
from mirage.history.site_import import slurm_answers
from mirage.history.site_import.accounting import convert_qos, convert_shares, has_enforced_limits
from mirage.history.site_import.node_numbers import format_some, map_node_numbers
from mirage.history.site_import.notes import SiteNote, match_partition
from mirage.history.site_import.reservations import convert_reservations
from mirage.history.site_import.scheduler import (
    ParamFields,
    convert_scheduler,
    has_whole_cores,
    is_memory_counted,
)
from mirage.history.site_import.slurm_answers import SiteAnswers, SiteQuestion
from mirage.simulator.types import NodeGroup, Params, Partition, Qos
from mirage.slurm.commands import sacctmgr, scontrol, scontrol_show
from mirage.slurm.commands.scontrol_show import NodeRecord, PartitionRecord, ReservationRecord

T = TypeVar("T")
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSite:
    params: Params
    node_names: tuple[str, ...]
    """Node names by node number."""
    notes: tuple[str, ...]
    """A sentence on each assumption, and on each setting that is not simulated."""


def convert_site(answers: SiteAnswers, zone: tzinfo | None = None) -> ImportedSite:
    """Convert the answers. `zone` is the zone of local times in the answers; None: this host's.

    Raises MalformedText if a needed answer cannot be read.
    """
    notes = [
        f"`{' '.join(question.argv)}` gave no answer ({reason}): {_CONSEQUENCES[question]}."
        for question, reason in answers.missing.items()
    ]
    config = scontrol.parse_config(answers.texts[slurm_answers.CONFIG])
    nodes = scontrol_show.parse_nodes(answers.texts[slurm_answers.NODES])
    numbers_by_name = {node.name: number for number, node in enumerate(nodes)}
    if len(numbers_by_name) < len(nodes):
        raise MalformedText("scontrol's show node names a node twice")
    fields, scheduler_notes = convert_scheduler(config)
    notes += scheduler_notes
    fields |= _convert_nodes(nodes, notes, with_memory=is_memory_counted(config))
    if has_whole_cores(config) and any(node.threads_per_core > 1 for node in nodes):
        notes.append("Not simulated: jobs get whole cores here, of several CPUs each.")
    if not is_memory_counted(config):
        notes.append("Memory is not counted, as SelectTypeParameters does not name it.")
    partitions = scontrol_show.parse_partitions(answers.texts[slurm_answers.PARTITIONS])
    fields["partitions"] = _convert_partitions(partitions, numbers_by_name, notes)
    reservations = _parse_reservations(answers, notes)
    fields["reservations"] = convert_reservations(reservations, nodes, partitions, zone, notes)
    with_limits = has_enforced_limits(config)
    cluster = config.get("ClusterName", "")
    fields["qos"], fields["shares"] = _convert_accounting(
        answers, cluster, notes, with_limits=with_limits
    )
    params = Params(name=_make_name(cluster, notes), nodes=len(nodes), **fields)
    return ImportedSite(params=params, node_names=tuple(numbers_by_name), notes=tuple(notes))


_CONSEQUENCES = {
    slurm_answers.RESERVATIONS: "no reservations",
    slurm_answers.QOS: "one QOS without limits",
    slurm_answers.ASSOCIATIONS: "every account has one share",
}


def _make_name(cluster_name: str, notes: list[str]) -> str:
    letters = "".join(c if c.isalnum() or c == "_" else "_" for c in cluster_name)
    name = letters if letters.isidentifier() else f"_{letters}"
    name = name[:_LONGEST_NAME]
    if name != cluster_name:
        notes.append(f"ClusterName is {cluster_name!r}: this file names the cluster {name}.")
    return name


def _convert_nodes(
    nodes: Sequence[NodeRecord], notes: list[str], *, with_memory: bool
) -> ParamFields:
    kinds = [(n.cpus, n.memory_mib if with_memory else 0, n.gpus) for n in nodes]
    cpus, mib, gpus = Counter(kinds).most_common(1)[0][0]
    groups = [(kind, len(list(run))) for kind, run in groupby(kinds)]
    out_of_service = [f"{n.name} {n.state}" for n in nodes if n.is_out_of_service]
    if out_of_service:
        notes.append(f"Out at the import, and up in this file: {format_some(out_of_service)}.")
    if any(n.features for n in nodes):
        features = sorted({f for n in nodes for f in n.features.split(",") if f})
        notes.append(f"Not simulated: features of nodes ({format_some(features)}).")
    if len({n.weight for n in nodes}) > 1:
        notes.append("Not simulated: Weight of nodes, by which Slurm chooses among them.")
    return {
        "cpus_per_node": cpus,
        "memory_mib_per_node": mib,
        "gpus_per_node": gpus,
        "node_groups": tuple(
            NodeGroup(count=count, cpus=kind[0], memory_mib=kind[1], gpus=kind[2])
            for kind, count in groups
        )
        if len(groups) > 1
        else (),
    }


def _convert_partitions(
    records: Sequence[PartitionRecord], numbers_by_name: dict[str, int], notes: list[str]
) -> tuple[Partition, ...]:
    if not any(p.default for p in records):
        notes.append(f"No partition is the default one: here {records[0].name}.")
    partitions = []
    for record in sorted(records, key=lambda p: not p.default):
        numbers = map_node_numbers(record.nodes, numbers_by_name, f"partition {record.name}", notes)
        if not numbers:
            notes.append(f"Partition {record.name} has no nodes: left out.")
            continue
        notes += _list_unsimulated(record)
        partitions.append(
            Partition(
                name=record.name,
                nodes=() if len(numbers) == len(numbers_by_name) else numbers,
                priority_tier=record.priority_tier,
                priority_job_factor=record.priority_job_factor,
                max_time_s=record.max_time_s,
                exclusive=record.over_subscribe == "EXCLUSIVE",
            )
        )
    if not partitions:
        raise MalformedText("no partition has nodes: there is nothing to simulate")
    return tuple(partitions)


def _list_unsimulated(record: PartitionRecord) -> list[str]:
    notes: list[str] = []
    if record.state != "UP":
        notes.append(f"Partition {record.name} is {record.state}, and UP in this file.")
    if record.over_subscribe not in {"NO", "EXCLUSIVE"}:
        sentence = f"Not simulated: OverSubscribe={record.over_subscribe} of {record.name}."
        notes.append(SiteNote(sentence, match_partition(record.name)))
    if record.others:
        settings = ", ".join(f"{key}={value}" for key, value in record.others.items())
        concerns = match_partition(record.name)
        notes.append(SiteNote(f"Not simulated of partition {record.name}: {settings}.", concerns))
    return notes


def _parse_reservations(answers: SiteAnswers, notes: list[str]) -> tuple[ReservationRecord, ...]:
    return (
        _parse_optional(
            answers, slurm_answers.RESERVATIONS, scontrol_show.parse_reservations, notes
        )
        or ()
    )


def _convert_accounting(
    answers: SiteAnswers, cluster: str, notes: list[str], *, with_limits: bool
) -> tuple[tuple[Qos, ...], tuple[tuple[str, int], ...]]:
    all_clusters = _parse_optional(
        answers, slurm_answers.ASSOCIATIONS, sacctmgr.parse_associations, notes
    )
    associations = [a for a in all_clusters or () if a.cluster == cluster]
    qos_records = _parse_optional(answers, slurm_answers.QOS, sacctmgr.parse_qos, notes)
    qos, qos_notes = convert_qos(qos_records or (), associations, with_limits=with_limits)
    shares, share_notes = convert_shares(associations)
    notes += [*qos_notes, *share_notes]
    return qos, shares


def _parse_optional(
    answers: SiteAnswers, question: SiteQuestion, parse: Callable[[str], T], notes: list[str]
) -> T | None:
    """Parse an optional answer. None if there is no answer; None with a note if it cannot be
    parsed."""
    if question not in answers.texts:
        return None
    try:
        return parse(answers.texts[question])
    except MalformedText as error:
        notes.append(
            f"`{' '.join(question.argv)}` does not read ({error}): {_CONSEQUENCES[question]}."
        )
        return None
