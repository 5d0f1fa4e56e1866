"""Sums up what Mirage has saved and spent (act), or would have (shadow), over some days."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from mirage.domain.access.caller import PARTITIONS, Principal
from mirage.domain.time_units import HOUR_S
from mirage.services.reports.daily_bootstrap import Interval, bootstrap_sum
from mirage.store.chains import handover_outcomes
from mirage.store.chains.handover_outcomes import (
    MIRAGE,
    POLICIES,
    OutcomeGroup,
    OutcomeKind,
    OutcomeSpan,
    OutcomeSums,
)
from mirage.store.database.engine import Transaction

BASELINES = tuple(policy for policy in POLICIES if policy != MIRAGE)
LEAST_HANDOVERS = 20
LEAST_DAYS = 7
SHOWN = 20
"""Payers, and chains: those that spent most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Against one baseline, over the compared hand-overs in sum; hours, negative where lost."""

    baseline: str
    baseline_interruption_h: float
    baseline_overlap_h: float
    interruption_saved_h: float
    interruption_saved_h_ci: Interval | None
    """95 %, over resampled days; None of too few days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverTotals:
    """Some hand-overs of one kind, in sum."""

    handovers: int
    interruption_h: float
    """As they were."""
    overlap_node_h: float
    """As they were: of mode act, what Mirage spent."""
    compared: int
    """Of them: those for which something can be said of other policies."""
    mirage_interruption_h: float
    """Of the compared ones: as it was in mode act, as it would have been in mode shadow."""
    mirage_overlap_h: float
    """Of the compared ones, in hours as a baseline's is, whatever nodes they have."""
    mirage_overlap_node_h: float
    saved: tuple[Saving, ...]
    """Against each of BASELINES; nothing where nothing can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImpact:
    partition: str
    act: HandoverTotals
    shadow: HandoverTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """A spender of overlap in mode act: an account's user, or a chain."""

    account: str = ""
    chain_id: str = ""
    partition: str = ""
    user: str
    handovers: int
    interruption_h: float
    overlap_node_h: float
    saved_h: float | None
    """Interruption, against plain afterany; None where nothing can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayImpact:
    """One day, UTC: hours of interruption saved against plain afterany."""

    at: int
    act_saved_h: float
    shadow_saved_h: float
    overlap_node_h: float
    """Spent in mode act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    since: int
    until: int
    own: bool
    """The caller's own chains alone are in it: the cluster keeps those of others private."""
    too_few: str
    """Why nothing is to be concluded yet, in a sentence; empty where there is enough."""
    act: HandoverTotals
    """Measured; what other policies had come to is an estimate."""
    shadow: HandoverTotals
    """As they were it is plain Slurm's, measured; under Mirage it is an estimate."""
    unasked: int
    """Hand-overs about which Mirage was not asked."""
    partitions: tuple[PartitionImpact, ...]
    payers: tuple[Payer, ...]
    chains: tuple[Payer, ...]
    days: tuple[DayImpact, ...]


def build_impact(
    tx: Transaction, cluster_id: int, since: int, until: int, reader: Principal
) -> Impact:
    """Build the impact of hand-overs that were complete in [since, until)."""
    own = None if reader.can_see_all_chains else reader.build_own_rows()
    span = OutcomeSpan(cluster_id=cluster_id, since=since, until=until, own=own)
    daily = handover_outcomes.sum_by_day(tx, span)
    named = reader.can_see(PARTITIONS)
    names = sorted({group.key[2] for group in daily}) if named else []
    return Impact(
        since=since,
        until=until,
        own=own is not None,
        too_few=_explain_too_few(daily),
        act=_sum_handovers(_filter_groups(daily, OutcomeKind.ACT)),
        shadow=_sum_handovers(_filter_groups(daily, OutcomeKind.SHADOW)),
        unasked=sum(group.sums.count for group in _filter_groups(daily, OutcomeKind.NONE)),
        partitions=tuple(_build_partition(daily, name) for name in names),
        payers=tuple(_build_payers(handover_outcomes.sum_by_payer(tx, span, SHOWN))),
        chains=tuple(_build_chains(handover_outcomes.sum_by_chain(tx, span, SHOWN), named=named)),
        days=tuple(_build_days(daily)),
    )


def _filter_groups(
    daily: Iterable[OutcomeGroup], kind: OutcomeKind, partition: str | None = None
) -> list[OutcomeGroup]:
    return [g for g in daily if g.key[1] == kind and partition in {None, g.key[2]}]


def _explain_too_few(daily: Sequence[OutcomeGroup]) -> str:
    compared = [group for group in daily if group.sums.compared]
    count = sum(group.sums.compared for group in compared)
    days = len({group.key[0] for group in compared})
    if count >= LEAST_HANDOVERS and days >= LEAST_DAYS:
        return ""
    return (
        f"Too few hand-overs to conclude anything: {count} on {days} days can be compared, and "
        f"{LEAST_HANDOVERS} on {LEAST_DAYS} days are needed."
    )


def _sum_handovers(groups: Sequence[OutcomeGroup]) -> HandoverTotals:
    whole = _sum_all(group.sums for group in groups)
    by_day = [_sum_all(g.sums for g in mine) for mine in _group_by_key(groups, lambda g: g.key[0])]
    return HandoverTotals(
        handovers=whole.count,
        interruption_h=whole.interruption_s / HOUR_S,
        overlap_node_h=whole.overlap_node_s / HOUR_S,
        compared=whole.compared,
        mirage_interruption_h=whole.under[MIRAGE][0] / HOUR_S,
        mirage_overlap_h=whole.under[MIRAGE][1] / HOUR_S,
        mirage_overlap_node_h=whole.mirage_overlap_node_s / HOUR_S,
        saved=tuple(_build_saving(name, whole, by_day) for name in BASELINES)
        if whole.compared
        else (),
    )


def _build_saving(baseline: str, whole: OutcomeSums, by_day: Sequence[OutcomeSums]) -> Saving:
    interruption_s, overlap_s = whole.under[baseline]
    return Saving(
        baseline=baseline,
        baseline_interruption_h=interruption_s / HOUR_S,
        baseline_overlap_h=overlap_s / HOUR_S,
        interruption_saved_h=_compute_saved_h(whole, baseline),
        interruption_saved_h_ci=bootstrap_sum(
            [_compute_saved_h(s, baseline) for s in by_day if s.compared]
        ),
    )


def _compute_saved_h(sums: OutcomeSums, baseline: str) -> float:
    return (sums.under[baseline][0] - sums.under[MIRAGE][0]) / HOUR_S


def _sum_all(parts: Iterable[OutcomeSums]) -> OutcomeSums:
    return reduce(_add_sums, parts, _NOTHING)


_NOTHING = OutcomeSums(
    count=0,
    interruption_s=0,
    overlap_node_s=0,
    compared=0,
    under=dict.fromkeys(POLICIES, (0, 0)),
    mirage_overlap_node_s=0,
)


def _add_sums(one: OutcomeSums, other: OutcomeSums) -> OutcomeSums:
    pairs = ((name, one.under[name], other.under[name]) for name in POLICIES)
    return OutcomeSums(
        count=one.count + other.count,
        interruption_s=one.interruption_s + other.interruption_s,
        overlap_node_s=one.overlap_node_s + other.overlap_node_s,
        compared=one.compared + other.compared,
        under={name: (a[0] + b[0], a[1] + b[1]) for name, a, b in pairs},
        mirage_overlap_node_s=one.mirage_overlap_node_s + other.mirage_overlap_node_s,
    )


def _group_by_key(
    groups: Iterable[OutcomeGroup], key: Callable[[OutcomeGroup], int]
) -> list[list[OutcomeGroup]]:
    found: dict[int, list[OutcomeGroup]] = {}
    for group in groups:
        found.setdefault(key(group), []).append(group)
    return [found[at] for at in sorted(found)]


def _build_partition(daily: Sequence[OutcomeGroup], name: str) -> PartitionImpact:
    return PartitionImpact(
        partition=name,
        act=_sum_handovers(_filter_groups(daily, OutcomeKind.ACT, name)),
        shadow=_sum_handovers(_filter_groups(daily, OutcomeKind.SHADOW, name)),
    )


def _build_payers(groups: Iterable[OutcomeGroup]) -> Iterator[Payer]:
    for group in groups:
        account, user = group.key
        yield _build_payer(group.sums, user, account=account)


def _build_chains(groups: Iterable[OutcomeGroup], *, named: bool) -> Iterator[Payer]:
    for group in groups:
        chain_id, user, partition = group.key
        yield _build_payer(
            group.sums, user, chain_id=chain_id, partition=partition if named else ""
        )


def _build_payer(sums: OutcomeSums, user: str, **whose: str) -> Payer:
    return Payer(
        user=user,
        handovers=sums.count,
        interruption_h=sums.interruption_s / HOUR_S,
        overlap_node_h=sums.overlap_node_s / HOUR_S,
        saved_h=_compute_saved_h(sums, "reactive") if sums.compared else None,
        **whose,
    )


def _build_days(daily: Sequence[OutcomeGroup]) -> Iterator[DayImpact]:
    for groups in _group_by_key(daily, lambda group: group.key[0]):
        act = _sum_all(group.sums for group in _filter_groups(groups, OutcomeKind.ACT))
        shadow = _sum_all(group.sums for group in _filter_groups(groups, OutcomeKind.SHADOW))
        yield DayImpact(
            at=groups[0].key[0],
            act_saved_h=_compute_saved_h(act, "reactive"),
            shadow_saved_h=_compute_saved_h(shadow, "reactive"),
            overlap_node_h=act.overlap_node_s / HOUR_S,
        )
