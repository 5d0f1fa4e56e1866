"""Records what Mirage's user has cost slurmctld, by slurmctld's own count.

slurmctld is asked seldom, and its answer is kept for pages.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import structlog

from mirage.errors import ClusterError
from mirage.slurm.commands.sdiag import Diagnosis
from mirage.store.database.engine import Store, Transaction
from mirage.store.operations import reports

_log = structlog.get_logger(__name__)

_KIND = "rpcs"
_US = 1e6

DiagnosisReader = Callable[[], tuple[Diagnosis, str]]
"""slurmctld's count, and the user that Mirage is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcUsage:
    """The calls of the user that Mirage runs as, whoever made them, and those of all users."""

    at: int
    since: int | None
    """None: since slurmctld started."""
    user: str
    calls: int
    seconds: float
    """That slurmctld took for them."""
    all_calls: int
    all_seconds: float

    @property
    def share(self) -> float | None:
        """Return the share of the calls that are Mirage's user's; None if there were no calls."""
        return self.calls / self.all_calls if self.all_calls else None

    @property
    def time_share(self) -> float | None:
        return self.seconds / self.all_seconds if self.all_seconds else None


def compute_usage(told: Diagnosis, user: str) -> RpcUsage:
    own = [row for row in told.users if row.user == user]
    return RpcUsage(
        at=told.at,
        since=told.since,
        user=user,
        calls=sum(row.calls for row in own),
        seconds=sum(row.us for row in own) / _US,
        all_calls=sum(row.calls for row in told.users),
        all_seconds=sum(row.us for row in told.users) / _US,
    )


def read_last_usage(tx: Transaction, cluster_id: int) -> RpcUsage | None:
    """None: slurmctld has not been asked yet."""
    found = reports.find_last_report(tx, cluster_id, _KIND)
    return None if found is None else RpcUsage(**found.document)


class LoadSensor:
    """The worker's: it asks every so many seconds, whatever the answer was."""

    def __init__(self, ask: DiagnosisReader, every_s: int) -> None:
        self._ask, self._every_s = ask, every_s
        self._asked_at: int | None = None

    def poll_if_due(self, store: Store, cluster_id: int, now: int) -> None:
        if self._asked_at is not None and now < self._asked_at + self._every_s:
            return
        self._asked_at = now
        try:
            found = compute_usage(*self._ask())
        except ClusterError as error:
            _log.warning("slurmctld does not say what it was asked", error=str(error))
            return
        with store.begin() as tx:
            reports.put_report(tx, cluster_id, _KIND, asdict(found), at=found.at)
