"""Takes from act to shadow what is forecast too wrongly, where it is: nobody's errors are others'.

The errors of an owner demote chains of that owner, in the partition and of the size of which the
forecasts were wrong. Such a demotion ends by itself: with the next forecast there that is right, or
a day after the last wrong one; then one more wrong forecast suffices. A whole partition, or the
cluster, falls back to shadow only where the median of several owners fails, each of whom has one
vote. Nothing but an admin ends that.

Demotions are computed from the stored forecasts. The document `DEMOTIONS` keeps those of the last
tick, for readers and so that the audit tells each once.
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
"""Of two owners neither outvotes the other: each is demoted by oneself."""
_WINDOW_S = 30 * DAY_S
"""Older forecasts tell nothing of today's."""
_DEPTH = 5
"""An owner's errors are looked through for this many times `demote_after`: for several places."""


def update_demotions(
    tx: Transaction, cluster_id: int, now: int, limits: Limits, source: str
) -> None:
    """Demote what the forecasts of `source` fail, and store the demotions of owners in force.

    Forecasts from before the last demotion of a partition or the cluster count no more, or nobody
    could ever set act again.
    """
    modes = clusters.list_modes(tx, cluster_id)
    known = {one.place: one for one in read_demotions(tx, cluster_id)}
    if Mode.ACT not in modes.values() and not known:
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
    found = {one.place: one for one in _find_demotions(errors, now, limits)}
    _record_demotions(tx, cluster_id, now, known, found)


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
    """Set shadow where the median owner's error is too large; return whether it is anywhere."""
    demoted = False
    for partition, ours in errors.items():
        votes = {uid: _compute_mean(each, limits) for uid, each in _group_by_owner(ours).items()}
        enough = len(votes) >= LEAST_OWNERS and len(ours) >= limits.demote_after
        if not enough or (middle := median_low(votes.values())) <= limits.demote_error_s:
            continue
        clusters.set_mode(tx, cluster_id, Mode.SHADOW, partition)
        clusters.set_demoted_at(tx, cluster_id, now)
        detail = {
            "partition": partition,
            "owners": len(votes),
            "median_abs_error_s": round(middle),
            "bound_s": limits.demote_error_s,
        }
        _write_audit(tx, cluster_id, now, DEMOTED, detail)
        demoted = True
    return demoted


def _find_demotions(errors: Sequence[OwnedError], now: int, limits: Limits) -> Iterator[Demotion]:
    for owned in _group_by_owner(errors).values():
        for place, here in _group_by_place(owned).items():
            newest, judged = here[0], _find_damning(here, owned, limits)
            until = newest.known_at + LASTS_S
            if judged and abs(newest.error_s) > limits.demote_error_s and now < until:
                yield Demotion(
                    place=place,
                    user=newest.user,
                    error_s=round(_compute_mean(judged, limits)),
                    bound_s=limits.demote_error_s,
                    until=until,
                )


def _find_damning(
    here: Sequence[OwnedError], owned: Sequence[OwnedError], limits: Limits
) -> Sequence[OwnedError]:
    """Return the errors of a place that demote it; empty: none do.

    An owner's last errors over all places demote those in which they are too large: one may have
    too few hand-overs in each to judge it by itself.
    """
    if _is_excessive(here, limits):
        return here
    lately = [error for error in owned[: limits.demote_after] if error in here]
    fails = _is_excessive(owned, limits) and lately
    return lately if fails and _compute_mean(lately, limits) > limits.demote_error_s else ()


def _is_excessive(errors: Sequence[OwnedError], limits: Limits) -> bool:
    enough = len(errors) >= limits.demote_after
    return enough and _compute_mean(errors, limits) > limits.demote_error_s


def _compute_mean(errors: Sequence[OwnedError], limits: Limits) -> float:
    """Return the mean absolute error of the newest `demote_after` errors, in seconds."""
    return fmean(abs(error.error_s) for error in errors[: limits.demote_after])


def _group_by_owner(errors: Sequence[OwnedError]) -> Mapping[int, Sequence[OwnedError]]:
    ordered = sorted(errors, key=lambda error: (error.uid, -error.known_at))
    return {uid: list(each) for uid, each in groupby(ordered, key=lambda error: error.uid)}


def _group_by_place(errors: Sequence[OwnedError]) -> Mapping[Place, Sequence[OwnedError]]:
    found: dict[Place, list[OwnedError]] = {}
    for error in errors:
        place = find_place(error.uid, error.partition, error.nodes)
        found.setdefault(place, []).append(error)
    return found


def _record_demotions(
    tx: Transaction,
    cluster_id: int,
    now: int,
    known: Mapping[Place, Demotion],
    found: Mapping[Place, Demotion],
) -> None:
    for place in found.keys() - known.keys():
        detail = {**asdict(place), "says": found[place].explain()}
        _write_audit(tx, cluster_id, now, DEMOTED, detail)
    for place in known.keys() - found.keys():
        _write_audit(tx, cluster_id, now, ACTS_AGAIN, asdict(place))
    if found != known:
        document = {"places": [asdict(found[place]) for place in sorted(found)]}
        reports.put_report(tx, cluster_id, reports.DEMOTIONS, document, at=now)


def _write_audit(
    tx: Transaction, cluster_id: int, now: int, event: str, detail: Mapping[str, object]
) -> None:
    entry = AuditEntry(at=now, actor="mirage", event=event, detail=dict(detail))
    audit.write_entry(tx, cluster_id, entry)
