"""The kill switch: while it is pulled, in one of three ways, mode act works as shadow.

Running jobs are not touched, and standbys stay in Slurm's queue. Standbys that Mirage had pinned,
or whose release it had planned, are put back behind their predecessors within a tick, also if the
queue does not read (`HandoverDecider.decide_retreat`, `retreats`). After that nothing that Mirage
decided happens in Slurm. While the switch is pulled in any way, no mode can be set to act. The
worker checks that at each tick.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import admin_overrides, clusters
from mirage.database.operations.admin_overrides import PulledSwitch
from mirage.database.schema.engine import Transaction
from mirage.domain.decision import Mode

SERVICE = "mirage"
FILE = "shadow"
"""The name of the file, in the state directory, that pulls the switch."""
PULLED, RELEASED = "kill switch pulled", "kill switch released"


class Way(StrEnum):
    COMMAND = "command"
    """`mirage mode shadow`."""
    REST = "rest"
    """`POST /api/v1/kill`, and the page Admin."""
    FILE = "file"
    """A file named `shadow` in the state directory; removing the file releases the switch."""


BY_HAND = frozenset({Way.COMMAND, Way.REST})
"""The ways that a request releases; the file is released by removing it."""

RELEASED_BY = {
    Way.COMMAND: "`mirage mode act`, or the page Admin",
    Way.REST: "the page Admin, `POST /api/v1/kill/release` or `mirage mode --release`",
    Way.FILE: "removing the file",
}


def list_pulls(tx: Transaction, cluster_id: int) -> Sequence[PulledSwitch]:
    """List the ways by which the switch is pulled, and by whom; empty if it is not pulled."""
    return admin_overrides.list_pulled_switches(tx, cluster_id)


def explain_pulls(pulls: Sequence[PulledSwitch]) -> str:
    """Return who pulled the switch and when, and what releases it."""
    ways = (
        f"by {pull.by} at {datetime.fromtimestamp(pull.at, UTC):%Y-%m-%d %H:%M} UTC "
        f"(released by {RELEASED_BY[Way(pull.way)]})"
        for pull in pulls
    )
    return f"the kill switch is pulled {', and '.join(ways)}"


def pull_switch(tx: Transaction, cluster_id: int, way: Way, *, now: int, actor: str) -> None:
    """Pull the switch: every mode act becomes shadow, and stays shadow until the release."""
    stopped = _stop_acting(tx, cluster_id)
    before = {pull.way for pull in list_pulls(tx, cluster_id)}
    new = PulledSwitch(way=way.value, by=actor, at=now, stopped=tuple(stopped))
    admin_overrides.pull_switch(tx, cluster_id, new)
    if way.value not in before or stopped:
        _write_audit(tx, cluster_id, PULLED, now, actor, way=way.value, stopped=stopped)


def release_switch(
    tx: Transaction,
    cluster_id: int,
    ways: Collection[Way] = BY_HAND,
    *,
    now: int,
    actor: str,
    act_again: bool = False,
) -> None:
    """Release the switch for these ways; modes may be set to act once no way is left.

    With `act_again`, the partitions that acted before the pull act again, unless they have got
    another mode since. Otherwise all stay in shadow.
    """
    names = {way.value for way in ways}
    released = [pull for pull in list_pulls(tx, cluster_id) if pull.way in names]
    if not released:
        return
    released_ways = [pull.way for pull in released]
    admin_overrides.release_switches(tx, cluster_id, released_ways)
    resumed = _list_resumable(tx, cluster_id, released) if act_again else []
    for partition in resumed:
        clusters.set_mode(tx, cluster_id, Mode.ACT, partition)
    _write_audit(tx, cluster_id, RELEASED, now, actor, ways=released_ways, acts_again=resumed)


def _list_resumable(
    tx: Transaction, cluster_id: int, released: Sequence[PulledSwitch]
) -> list[str]:
    if list_pulls(tx, cluster_id):
        return []
    modes = clusters.list_modes(tx, cluster_id)
    stopped = {partition for pull in released for partition in pull.stopped}
    return sorted(name for name in stopped if modes.get(name) is Mode.SHADOW)


def enforce_switch(tx: Transaction, cluster_id: int, file: Path | None, *, now: int) -> None:
    """Pull or release the switch by its file, and keep modes from act while it is pulled.

    The worker calls this at each tick.
    """
    if file is not None and file.exists():
        pull_switch(tx, cluster_id, Way.FILE, now=now, actor=f"file {file}")
    else:
        release_switch(tx, cluster_id, {Way.FILE}, now=now, actor=SERVICE)
    if list_pulls(tx, cluster_id) and (stopped := _stop_acting(tx, cluster_id)):
        _write_audit(tx, cluster_id, PULLED, now, SERVICE, stopped=stopped)


def _stop_acting(tx: Transaction, cluster_id: int) -> list[str]:
    """Set everything that acts to shadow, and return the partitions that acted."""
    modes = clusters.list_modes(tx, cluster_id)
    acting = sorted(name for name, mode in modes.items() if mode is Mode.ACT)
    for partition in acting:
        clusters.set_mode(tx, cluster_id, Mode.SHADOW, partition)
    return acting


def _write_audit(
    tx: Transaction, cluster_id: int, event: str, now: int, actor: str, **detail: object
) -> None:
    audit.write_entry(tx, cluster_id, AuditEntry(at=now, actor=actor, event=event, detail=detail))
