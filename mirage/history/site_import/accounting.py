"""Converts QOS and shares of accounting to the simulator's, with notes on what it cannot do."""

from collections import Counter
from collections.abc import Mapping, Sequence

from mirage.domain.tres import count_gpus
from mirage.history.site_import.notes import SiteNote, match_qos, match_users
from mirage.simulator.types import Qos
from mirage.slurm.commands.sacctmgr import AssociationRecord, QosRecord

_NAMED = 5
"""The most names in one sentence, as a site may have hundreds."""
_ENFORCE_LIMITS = frozenset({"limits", "safe", "all"})
_LIMITED = {"cpu": "max_cpus_pu", "mem": "max_memory_mib_pu", "node": "max_nodes_pu"}
_ROOT = "root"
_OVERRIDES = "PartitionTimeLimit"
"""The only flag of a QOS that the simulator knows: MaxTime of partitions does not bind its jobs."""


def has_enforced_limits(config: Mapping[str, str]) -> bool:
    """Return whether sacctmgr's limits bind anybody (AccountingStorageEnforce)."""
    words = config.get("AccountingStorageEnforce", "").lower().split(",")
    return bool(_ENFORCE_LIMITS & {word.strip() for word in words})


def convert_qos(
    shown: Sequence[QosRecord], associations: Sequence[AssociationRecord], *, limits: bool
) -> tuple[tuple[Qos, ...], list[str]]:
    """Return the QOS, the default first, and notes. `limits` False: the limits are left out."""
    notes: list[str] = []
    found = tuple(_convert_one_qos(one, notes, limits=limits) for one in shown)
    if not limits and any(q.max_jobs_pu or q.max_submit_pu or q.max_tres_pu for q in shown):
        notes.append("Slurm does not enforce limits here (AccountingStorageEnforce): left out.")
    default, why = _choose_default([q.name for q in shown], associations)
    if len(found) > 1:
        notes.append(f"The default QOS is {default}: {why}.")
    return tuple(sorted(found, key=lambda q: q.name != default)), notes


def _convert_one_qos(one: QosRecord, notes: list[str], *, limits: bool) -> Qos:
    others = dict(one.others)
    if rest := sorted(one.flags - {_OVERRIDES}):
        others["Flags"] = ",".join(rest)
    if others:
        told = ", ".join(f"{key}={value}" for key, value in others.items())
        notes.append(SiteNote(f"Not simulated of QOS {one.name}: {told}.", match_qos(one.name)))
    overrides = _OVERRIDES in one.flags
    if not limits:
        return Qos(name=one.name, priority=one.priority, overrides_max_time=overrides)
    named = {_LIMITED[tres]: n for tres, n in one.max_tres_pu.items() if tres in _LIMITED}
    rest = sorted(t for t in one.max_tres_pu if t not in _LIMITED and not t.startswith("gres/gpu"))
    if rest:
        what = f"Not simulated of QOS {one.name}: MaxTRESPU of {', '.join(rest)}."
        notes.append(SiteNote(what, match_qos(one.name)))
    if any(tres.startswith("gres/gpu:") for tres in one.max_tres_pu):
        notes.append(f"QOS {one.name} limits GPUs by type: here all types together.")
    return Qos(
        name=one.name,
        priority=one.priority,
        overrides_max_time=overrides,
        max_jobs_pu=one.max_jobs_pu,
        max_submit_pu=one.max_submit_pu,
        max_gpus_pu=count_gpus(one.max_tres_pu),
        **named,
    )


def _choose_default(
    names: Sequence[str], associations: Sequence[AssociationRecord]
) -> tuple[str, str]:
    chosen = Counter(a.default_qos for a in associations if a.user and a.default_qos in names)
    if chosen:
        ((name, users),) = chosen.most_common(1)
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
    alike = {a.user for a in users if a.share is None}
    if alike:
        notes.append(
            f"Fairshare=parent: Slurm ranks these users of an account equally, the simulator by "
            f"what each user used: {_format_some(alike)}."
        )
    merged = {a.account for a in accounts if a.share is None}
    if merged:
        notes.append(
            f"Fairshare=parent: accounts with one share in this file: {_format_some(merged)}."
        )
    own = {a.user for a in users if a.share not in {None, 1}}
    if own:
        notes.append(
            f"Users have equal shares in the simulator, but not on this site: {_format_some(own)}."
        )
    limited = [a for a in associations if a.limits]
    if limited:
        told = Counter(key for a in limited for key in a.limits)
        what = ", ".join(f"{key} ({n})" for key, n in told.most_common())
        whose = f"Not simulated: limits of {len(limited)} associations: {what}."
        of_accounts = {a.account for a in limited if not a.user}
        notes.append(SiteNote(whose, match_users({a.user for a in limited} - {""}, of_accounts)))
    return tuple(shares.items()), notes


def _format_some(names: Sequence[str] | set[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMED
    return ", ".join(ordered[:_NAMED]) + (f" and {more} more" if more > 0 else "")
