"""Sums up what Mirage has saved and spent (act), or would have (shadow), over some days."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirage.database.chains import handover_outcomes
from mirage.database.chains.handover_outcomes import (
    MIRAGE,
    REACTIVE,
    OutcomeGroup,
    OutcomeKind,
    OutcomeSpan,
    OutcomeSums,
    PolicySums,
)
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import PARTITIONS, Principal
from mirage.domain.time_units import HOUR_S
from mirage.reports.daily_bootstrap import Interval, bootstrap_sum

FIRST = (REACTIVE, "fixed-lead", "average", "slurm-estimate")
"""The baselines that are shown first, in this order; any other that is stored follows by name."""
LEAST_HANDOVERS = 20
LEAST_DAYS = 7
"""With fewer hand-overs, or on fewer days, the report says that nothing can be concluded."""
SHOWN = 20
"""The number of payers, and of chains, that are shown: those that spent the most overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Mirage against one baseline: hours summed over the compared hand-overs; negative: lost."""

    baseline: str
    compared: int
    """Hand-overs for which this baseline's outcome is known: fewer while the baseline is new."""
    baseline_interruption_h: float
    baseline_overlap_h: float
    mirage_interruption_h: float
    mirage_overlap_h: float
    interruption_saved_h: float
    interruption_saved_h_ci: Interval | None
    """The 95 % interval over resampled days; None: too few days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverTotals:
    """Sums over hand-overs of one kind."""

    handovers: int
    interruption_h: float
    """The measured interruption."""
    overlap_node_h: float
    """The measured overlap; in mode act, what Mirage spent."""
    returns: int
    """How often early links gave their nodes back."""
    returned_node_h: float
    """What these links held before: a part of the overlap."""
    returns_saved_node_h: float
    """What they would have held idle from their last return on, had they kept their nodes."""
    compared: int
    """The hand-overs for which the outcome of other policies is known."""
    mirage_interruption_h: float
    """Over the compared hand-overs: measured in mode act, estimated in mode shadow."""
    mirage_overlap_h: float
    """Over the compared hand-overs, in hours like a baseline's, not weighted by nodes."""
    mirage_overlap_node_h: float
    saved: tuple[Saving, ...]
    """Mirage against each baseline; empty: nothing can be compared."""


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
    """Interruption saved against plain afterany; None: nothing can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayImpact:
    """One day, UTC: hours of interruption saved against plain afterany."""

    at: int
    act_saved_h: float
    shadow_saved_h: float
    overlap_node_h: float
    """Overlap spent in mode act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    since: int
    until: int
    own: bool
    """Whether only the caller's own chains count, as the cluster keeps others' jobs private."""
    too_few: str
    """A sentence on why the data allow no conclusion yet; empty: there are enough data."""
    act: HandoverTotals
    """Mode act: Mirage's outcome is measured, that of other policies is estimated."""
    shadow: HandoverTotals
    """Mode shadow: plain Slurm's outcome is measured, Mirage's is estimated."""
    unasked: int
    """The number of hand-overs about which Mirage made no decision."""
    released_while_away: int
    """The number of hand-overs that Slurm released by a plan while Mirage was away."""
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
    sees_partitions = reader.can_see(PARTITIONS)
    names = sorted({group.key[2] for group in daily}) if sees_partitions else []
    by_payer = handover_outcomes.sum_by_payer(tx, span, SHOWN)
    by_chain = handover_outcomes.sum_by_chain(tx, span, SHOWN)
    return Impact(
        since=since,
        until=until,
        own=own is not None,
        too_few=_explain_too_few(daily),
        act=_sum_handovers(_filter_groups(daily, OutcomeKind.ACT)),
        shadow=_sum_handovers(_filter_groups(daily, OutcomeKind.SHADOW)),
        unasked=sum(group.sums.count for group in _filter_groups(daily, OutcomeKind.NONE)),
        released_while_away=sum(group.sums.while_away for group in daily),
        partitions=tuple(_build_partition(daily, name) for name in names),
        payers=tuple(_build_payers(by_payer)),
        chains=tuple(_build_chains(by_chain, sees_partitions=sees_partitions)),
        days=tuple(_build_days(daily)),
    )


def _filter_groups(
    daily: Iterable[OutcomeGroup], kind: OutcomeKind, partition: str | None = None
) -> list[OutcomeGroup]:
    return [g for g in daily if g.key[1] == kind and partition in {None, g.key[2]}]


def _explain_too_few(daily: Sequence[OutcomeGroup]) -> str:
    compared = [group for group in daily if MIRAGE in group.sums.by_policy]
    count = sum(group.sums.by_policy[MIRAGE].count for group in compared)
    days = len({group.key[0] for group in compared})
    if count >= LEAST_HANDOVERS and days >= LEAST_DAYS:
        return ""
    return (
        f"Too few hand-overs to conclude anything: {count} on {days} days can be compared. "
        f"At least {LEAST_HANDOVERS} on {LEAST_DAYS} days are needed."
    )


def _sum_handovers(groups: Sequence[OutcomeGroup]) -> HandoverTotals:
    whole = _sum_all(groups)
    by_day = [_sum_all(of_day).by_policy for of_day in _group_by_key(groups, lambda g: g.key[0])]
    mirage = whole.get_policy_sums(MIRAGE)
    return HandoverTotals(
        handovers=whole.count,
        interruption_h=whole.interruption_s / HOUR_S,
        overlap_node_h=whole.overlap_node_s / HOUR_S,
        returns=whole.returns,
        returned_node_h=whole.returned_node_s / HOUR_S,
        returns_saved_node_h=whole.returns_saved_node_s / HOUR_S,
        compared=mirage.count,
        mirage_interruption_h=mirage.interruption_s / HOUR_S,
        mirage_overlap_h=mirage.overlap_s / HOUR_S,
        mirage_overlap_node_h=mirage.overlap_node_s / HOUR_S,
        saved=tuple(
            _build_saving(name, whole.by_policy[name], [day[name] for day in by_day if name in day])
            for name in _sort_baselines(whole.by_policy)
        ),
    )


def _sort_baselines(policies: Iterable[str]) -> list[str]:
    baselines = set(policies) - {MIRAGE}
    first = (name for name in FIRST if name in baselines)
    return [*first, *sorted(baselines.difference(FIRST))]


def _build_saving(baseline: str, whole: PolicySums, by_day: Sequence[PolicySums]) -> Saving:
    return Saving(
        baseline=baseline,
        compared=whole.count,
        baseline_interruption_h=whole.interruption_s / HOUR_S,
        baseline_overlap_h=whole.overlap_s / HOUR_S,
        mirage_interruption_h=whole.mirage_interruption_s / HOUR_S,
        mirage_overlap_h=whole.mirage_overlap_s / HOUR_S,
        interruption_saved_h=_compute_saved_h(whole),
        interruption_saved_h_ci=bootstrap_sum([_compute_saved_h(day) for day in by_day]),
    )


def _compute_saved_h(sums: PolicySums) -> float:
    return (sums.interruption_s - sums.mirage_interruption_s) / HOUR_S


def _sum_all(groups: Iterable[OutcomeGroup]) -> OutcomeSums:
    return sum((group.sums for group in groups), OutcomeSums())


def _group_by_key(
    groups: Iterable[OutcomeGroup], key: Callable[[OutcomeGroup], int]
) -> list[list[OutcomeGroup]]:
    by_key: dict[int, list[OutcomeGroup]] = {}
    for group in groups:
        by_key.setdefault(key(group), []).append(group)
    return [by_key[at] for at in sorted(by_key)]


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


def _build_chains(groups: Iterable[OutcomeGroup], *, sees_partitions: bool) -> Iterator[Payer]:
    for group in groups:
        chain_id, user, partition = group.key
        yield _build_payer(
            group.sums, user, chain_id=chain_id, partition=partition if sees_partitions else ""
        )


def _build_payer(sums: OutcomeSums, user: str, **names: str) -> Payer:
    return Payer(
        user=user,
        handovers=sums.count,
        interruption_h=sums.interruption_s / HOUR_S,
        overlap_node_h=sums.overlap_node_s / HOUR_S,
        saved_h=_compute_saved_h(sums.by_policy[REACTIVE]) if REACTIVE in sums.by_policy else None,
        **names,
    )


def _build_days(daily: Sequence[OutcomeGroup]) -> Iterator[DayImpact]:
    for groups in _group_by_key(daily, lambda group: group.key[0]):
        act = _sum_all(_filter_groups(groups, OutcomeKind.ACT))
        shadow = _sum_all(_filter_groups(groups, OutcomeKind.SHADOW))
        yield DayImpact(
            at=groups[0].key[0],
            act_saved_h=_compute_saved_h(act.get_policy_sums(REACTIVE)),
            shadow_saved_h=_compute_saved_h(shadow.get_policy_sums(REACTIVE)),
            overlap_node_h=act.overlap_node_s / HOUR_S,
        )
