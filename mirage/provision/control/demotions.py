"""Demotes chains and partitions from act to shadow where forecasts were too wrong.

The errors of an owner's forecasts demote chains of that owner alone, in the same partition and of
similar size. Such a demotion ends by itself: with the next right forecast there, or a day after the
last wrong one; after that day, one more wrong forecast suffices to demote again. A whole partition,
or the cluster, is demoted only if the median of several owners' errors is too large, where each
owner has one vote. Only an admin ends that demotion.

Demotions are computed from the stored forecasts. The document `DEMOTIONS` has the demotions of the
last tick: pages show them, and the audit gets one entry for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import fmean, median_low

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import OwnedError
from mirage.database.operations import clusters, reports
from mirage.database.operations.demotions import (
    LASTS_S,
    Demotion,
    Place,
    find_place,
    read_demotions,
)
from mirage.database.schema.engine import Transaction
from mirage.domain.decision import Mode
from mirage.domain.time_units import DAY_S
from mirage.provision.control.limits import Limits

DEMOTED, ACTS_AGAIN = "demoted to shadow", "acts again after a demotion"
LEAST_OWNERS = 3
"""The fewest owners whose median demotes a partition. Of two, neither could outvote the other."""
_WINDOW_S = 30 * DAY_S
"""Seconds after which a forecast says nothing about those of today."""
_DEPTH = 5
"""How many times `demote_after` errors are read for each owner, since they lie in several
places."""


def update_demotions(
    tx: Transaction, cluster_id: int, now: int, limits: Limits, source: str
) -> None:
    """Demote by the errors of the forecasts of `source`, and store the owners' demotions in force.

    Forecasts from before the last demotion of a partition or the cluster no longer count. Otherwise
    they would undo an admin's act at the next tick.
    """
    modes = clusters.list_modes(tx, cluster_id)
    before = {demotion.place: demotion for demotion in read_demotions(tx, cluster_id)}
    if Mode.ACT not in modes.values() and not before:
        return
    since = max(clusters.read_demoted_at(tx, cluster_id) or 0, now - _WINDOW_S)
    errors: Sequence[OwnedError] = ()
    if handover_forecasts.has_error_above(
        tx, cluster_id, source, since=since, bound_s=limits.demote_error_s
    ):
        errors = handover_forecasts.list_errors_by_owner(
            tx, cluster_id, source, since=since, last=_DEPTH * limits.demote_after
        )
    if _demote_partitions(tx, cluster_id, now, limits, _sort_by_mode(errors, modes)):
        errors = ()
    in_force = {demotion.place: demotion for demotion in _find_demotions(errors, now, limits)}
    _record_demotions(tx, cluster_id, now, before, in_force)


def _sort_by_mode(
    errors: Sequence[OwnedError], modes: Mapping[str, Mode]
) -> Mapping[str, Sequence[OwnedError]]:
    """Return the errors by the partition whose mode holds for them, where that is act."""
    return {
        name: [e for e in errors if (e.partition if e.partition in modes else "") == name]
        for name, mode in modes.items()
        if mode is Mode.ACT
    }


def _demote_partitions(
    tx: Transaction,
    cluster_id: int,
    now: int,
    limits: Limits,
    errors: Mapping[str, Sequence[OwnedError]],
) -> bool:
    """Set shadow where the median owner's error is too large; return whether it is so anywhere."""
    has_demoted = False
    for partition, in_partition in errors.items():
        by_owner = _group_by_owner(in_partition)
        votes = {uid: _compute_mean(owned, limits) for uid, owned in by_owner.items()}
        is_enough = len(votes) >= LEAST_OWNERS and len(in_partition) >= limits.demote_after
        if not is_enough or (median_s := median_low(votes.values())) <= limits.demote_error_s:
            continue
        clusters.set_mode(tx, cluster_id, Mode.SHADOW, partition)
        clusters.set_demoted_at(tx, cluster_id, now)
        detail = {
            "partition": partition,
            "owners": len(votes),
            "median_abs_error_s": round(median_s),
            "bound_s": limits.demote_error_s,
        }
        _write_audit(tx, cluster_id, now, DEMOTED, detail)
        has_demoted = True
    return has_demoted


def _find_demotions(errors: Sequence[OwnedError], now: int, limits: Limits) -> Iterator[Demotion]:
    for owned in _group_by_owner(errors).values():
        for place, in_place in _group_by_place(owned).items():
            newest, excessive = in_place[0], _find_excessive(in_place, owned, limits)
            until = newest.known_at + LASTS_S
            if excessive and abs(newest.error_s) > limits.demote_error_s and now < until:
                yield Demotion(
                    place=place,
                    user=newest.user,
                    error_s=round(_compute_mean(excessive, limits)),
                    bound_s=limits.demote_error_s,
                    until=until,
                )


def _find_excessive(
    in_place: Sequence[OwnedError], owned: Sequence[OwnedError], limits: Limits
) -> Sequence[OwnedError]:
    """Return the errors that demote a place; empty if none do.

    `in_place` are the owner's errors in the place, and `owned` those in all places, newest first.
    An owner may have too few hand-overs in each place to judge it by itself. Then the owner's last
    errors over all places count, and demote the places in which they are too large.
    """
    if _is_excessive(in_place, limits):
        return in_place
    recent = [error for error in owned[: limits.demote_after] if error in in_place]
    fails = _is_excessive(owned, limits) and recent
    return recent if fails and _compute_mean(recent, limits) > limits.demote_error_s else ()


def _is_excessive(errors: Sequence[OwnedError], limits: Limits) -> bool:
    is_enough = len(errors) >= limits.demote_after
    return is_enough and _compute_mean(errors, limits) > limits.demote_error_s


def _compute_mean(errors: Sequence[OwnedError], limits: Limits) -> float:
    """Return the mean absolute error of the newest `demote_after` errors, in seconds."""
    return fmean(abs(error.error_s) for error in errors[: limits.demote_after])


def _group_by_owner(errors: Sequence[OwnedError]) -> Mapping[int, Sequence[OwnedError]]:
    ordered = sorted(errors, key=lambda error: (error.uid, -error.known_at))
    return {uid: list(owned) for uid, owned in groupby(ordered, key=lambda error: error.uid)}


def _group_by_place(errors: Sequence[OwnedError]) -> Mapping[Place, Sequence[OwnedError]]:
    by_place: dict[Place, list[OwnedError]] = {}
    for error in errors:
        place = find_place(error.uid, error.partition, error.nodes)
        by_place.setdefault(place, []).append(error)
    return by_place


def _record_demotions(
    tx: Transaction,
    cluster_id: int,
    now: int,
    before: Mapping[Place, Demotion],
    in_force: Mapping[Place, Demotion],
) -> None:
    for place in in_force.keys() - before.keys():
        detail = {**asdict(place), "says": in_force[place].explain()}
        _write_audit(tx, cluster_id, now, DEMOTED, detail)
    for place in before.keys() - in_force.keys():
        _write_audit(tx, cluster_id, now, ACTS_AGAIN, asdict(place))
    if in_force != before:
        document = {"places": [asdict(in_force[place]) for place in sorted(in_force)]}
        reports.put_report(tx, cluster_id, reports.DEMOTIONS, document, at=now)


def _write_audit(
    tx: Transaction, cluster_id: int, now: int, event: str, detail: Mapping[str, object]
) -> None:
    entry = AuditEntry(at=now, actor="mirage", event=event, detail=dict(detail))
    audit.write_entry(tx, cluster_id, entry)
