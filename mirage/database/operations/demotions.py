"""Demotions: chains of one owner, partition and size that are in shadow where the mode is act.

`provision.control.demotions` makes them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mirage.database.operations import reports
from mirage.database.schema.engine import Transaction
from mirage.domain.time_units import DAY_S, HOUR_S

LASTS_S = DAY_S
"""Seconds after the last wrong forecast for which a demotion lasts."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Chains of one owner in one partition whose standbys have [2^size, 2^(size + 1)) nodes."""

    uid: int
    partition: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    place: Place
    user: str
    error_s: float
    """The mean absolute error that demoted it."""
    bound_s: float
    until: int
    """When it ends at the latest, without another wrong forecast."""

    def explain(self) -> str:
        """Return in one sentence, for the owner too, what is demoted and how it comes back."""
        least = 1 << self.place.size
        nodes = "1 node" if least == 1 else f"{least} to {2 * least - 1} nodes"
        return (
            f"forecasts for {self.user or self.place.uid}'s links of {nodes} in partition "
            f"{self.place.partition or '(none)'} were wrong by {self.error_s / HOUR_S:.1f} h on "
            f"average (demote_error_h: {self.bound_s / HOUR_S:g}), so these chains are in shadow "
            f"until a forecast there is right, at most {LASTS_S // HOUR_S} h after the last wrong "
            "one"
        )


def find_demotion(
    demotions: Collection[Demotion], uid: int, partition: str, nodes: int
) -> Demotion | None:
    """Return the demotion that holds for this owner's standby; of partitions "a,b" any counts.

    None: the mode of its partition holds.
    """
    places = {find_place(uid, name, nodes) for name in partition.split(",")}
    return next((demotion for demotion in demotions if demotion.place in places), None)


def read_demotions(tx: Transaction, cluster_id: int) -> Sequence[Demotion]:
    """Return the demotions in force at the last tick, by owner."""
    report = reports.find_last_report(tx, cluster_id, reports.DEMOTIONS)
    if report is None:
        return ()
    return [Demotion(**row | {"place": Place(**row["place"])}) for row in report.document["places"]]


def find_place(uid: int, partition: str, nodes: int) -> Place:
    return Place(uid, partition, max(1, nodes).bit_length() - 1)
