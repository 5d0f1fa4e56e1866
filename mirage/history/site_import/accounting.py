"""Converts QOS and shares of accounting to the simulator's, with notes on what it cannot do."""

from collections import Counter
from collections.abc import Mapping, Sequence

from mirage.domain.tres import count_gpus
from mirage.history.site_import.notes import SiteNote, match_qos, match_users
from mirage.simulator.types import Qos
from mirage.slurm.commands.sacctmgr import AssociationRecord, QosRecord

_MOST_NAMES = 5
"""The most names in one sentence, as a site may have hundreds."""
_ENFORCE_LIMITS = frozenset({"limits", "safe", "all"})
_TRES_FIELDS = {"cpu": "max_cpus_pu", "mem": "max_memory_mib_pu", "node": "max_nodes_pu"}
_ROOT = "root"
_OVERRIDES_FLAG = "PartitionTimeLimit"
"""The only flag of a QOS that is simulated: MaxTime of partitions does not bind the QOS's jobs."""


def has_enforced_limits(config: Mapping[str, str]) -> bool:
    """Return whether sacctmgr's limits bind anybody (AccountingStorageEnforce)."""
    words = config.get("AccountingStorageEnforce", "").lower().split(",")
    return bool(_ENFORCE_LIMITS & {word.strip() for word in words})


def convert_qos(
    records: Sequence[QosRecord], associations: Sequence[AssociationRecord], *, with_limits: bool
) -> tuple[tuple[Qos, ...], list[str]]:
    """Return the QOS, the default first, and notes. `with_limits` False: limits are left out."""
    notes: list[str] = []
    converted = tuple(
        _convert_one_qos(record, notes, with_limits=with_limits) for record in records
    )
    if not with_limits and any(q.max_jobs_pu or q.max_submit_pu or q.max_tres_pu for q in records):
        notes.append("Slurm does not enforce limits here (AccountingStorageEnforce): left out.")
    default, reason = _choose_default([q.name for q in records], associations)
    if len(converted) > 1:
        notes.append(f"The default QOS is {default}: {reason}.")
    return tuple(sorted(converted, key=lambda q: q.name != default)), notes


def _convert_one_qos(record: QosRecord, notes: list[str], *, with_limits: bool) -> Qos:
    other_settings = dict(record.others)
    if unknown := sorted(record.flags - {_OVERRIDES_FLAG}):
        other_settings["Flags"] = ",".join(unknown)
    if other_settings:
        settings = ", ".join(f"{key}={value}" for key, value in other_settings.items())
        notes.append(
            SiteNote(f"Not simulated of QOS {record.name}: {settings}.", match_qos(record.name))
        )
    overrides = _OVERRIDES_FLAG in record.flags
    if not with_limits:
        return Qos(name=record.name, priority=record.priority, overrides_max_time=overrides)
    tres_limits = {
        _TRES_FIELDS[tres]: n for tres, n in record.max_tres_pu.items() if tres in _TRES_FIELDS
    }
    unknown = sorted(
        t for t in record.max_tres_pu if t not in _TRES_FIELDS and not t.startswith("gres/gpu")
    )
    if unknown:
        sentence = f"Not simulated of QOS {record.name}: MaxTRESPU of {', '.join(unknown)}."
        notes.append(SiteNote(sentence, match_qos(record.name)))
    if any(tres.startswith("gres/gpu:") for tres in record.max_tres_pu):
        notes.append(f"QOS {record.name} limits GPUs by type: here all types together.")
    return Qos(
        name=record.name,
        priority=record.priority,
        overrides_max_time=overrides,
        max_jobs_pu=record.max_jobs_pu,
        max_submit_pu=record.max_submit_pu,
        max_gpus_pu=count_gpus(record.max_tres_pu),
        **tres_limits,
    )


def _choose_default(
    names: Sequence[str], associations: Sequence[AssociationRecord]
) -> tuple[str, str]:
    counts = Counter(a.default_qos for a in associations if a.user and a.default_qos in names)
    if counts:
        ((name, users),) = counts.most_common(1)
        return name, f"that of {users} of {sum(a.user != '' for a in associations)} associations"
    return ("normal" if "normal" in names else names[0]) if names else "", "none is told"


def convert_shares(
    associations: Sequence[AssociationRecord],
) -> tuple[tuple[tuple[str, int], ...], list[str]]:
    """Return shares by account, and notes on what the simulator's two levels leave out."""
    accounts = [a for a in associations if not a.user]
    users = [a for a in associations if a.user]
    shares = {a.account: 1 if a.share is None else a.share for a in accounts if a.account != _ROOT}
    notes: list[str] = []
    nested = sorted({a.account for a in accounts if a.parent not in {"", _ROOT}})
    if nested:
        notes.append(
            f"Accounts below other accounts count as their equals: {_format_some(nested)}."
        )
    parent_users = {a.user for a in users if a.share is None}
    if parent_users:
        notes.append(
            f"Fairshare=parent: Slurm ranks these users of an account equally, the simulator by "
            f"what each user used: {_format_some(parent_users)}."
        )
    merged_accounts = {a.account for a in accounts if a.share is None}
    if merged_accounts:
        notes.append(
            "Fairshare=parent: accounts with one share in this file: "
            f"{_format_some(merged_accounts)}."
        )
    own_shares = {a.user for a in users if a.share not in {None, 1}}
    if own_shares:
        notes.append(
            "Users have equal shares in the simulator, but not on this site: "
            f"{_format_some(own_shares)}."
        )
    limited_associations = [a for a in associations if a.limits]
    if limited_associations:
        counts = Counter(key for a in limited_associations for key in a.limits)
        keys = ", ".join(f"{key} ({n})" for key, n in counts.most_common())
        sentence = f"Not simulated: limits of {len(limited_associations)} associations: {keys}."
        limited_accounts = {a.account for a in limited_associations if not a.user}
        notes.append(
            SiteNote(
                sentence,
                match_users({a.user for a in limited_associations} - {""}, limited_accounts),
            )
        )
    return tuple(shares.items()), notes


def _format_some(names: Sequence[str] | set[str]) -> str:
    ordered = sorted(names)
    unnamed_count = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (
        f" and {unnamed_count} more" if unnamed_count > 0 else ""
    )
