"""Records how many calls Mirage's user has made to slurmctld, by slurmctld's own count (sdiag).

slurmctld is asked seldom, and its answer is stored for pages.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import structlog

from mirage.database.operations import reports
from mirage.database.schema.engine import Store, Transaction
from mirage.errors import ClusterError
from mirage.slurm.commands.sdiag import Diagnosis

_log = structlog.get_logger(__name__)

_KIND = "rpcs"
_US = 1e6

DiagnosisReader = Callable[[], tuple[Diagnosis, str]]
"""Returns slurmctld's count, and the user as whom Mirage calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcUsage:
    """The calls of the user that Mirage runs as, by whatever program, and those of all users."""

    at: int
    since: int | None
    """When the count began, in epoch seconds; None if it began with slurmctld's start."""
    user: str
    calls: int
    seconds: float
    """The seconds that slurmctld took for these calls."""
    all_calls: int
    all_seconds: float

    @property
    def share(self) -> float | None:
        """Return the share of the calls that are Mirage's user's; None if there were no calls."""
        return self.calls / self.all_calls if self.all_calls else None

    @property
    def time_share(self) -> float | None:
        return self.seconds / self.all_seconds if self.all_seconds else None


def compute_usage(diagnosis: Diagnosis, user: str) -> RpcUsage:
    """Return the calls of the user and of all users by slurmctld's count."""
    own = [row for row in diagnosis.users if row.user == user]
    return RpcUsage(
        at=diagnosis.at,
        since=diagnosis.since,
        user=user,
        calls=sum(row.calls for row in own),
        seconds=sum(row.us for row in own) / _US,
        all_calls=sum(row.calls for row in diagnosis.users),
        all_seconds=sum(row.us for row in diagnosis.users) / _US,
    )


def read_last_usage(tx: Transaction, cluster_id: int) -> RpcUsage | None:
    """Return the last stored usage; None if slurmctld has not been asked yet."""
    report = reports.find_last_report(tx, cluster_id, _KIND)
    return None if report is None else RpcUsage(**report.document)


class LoadSensor:
    """Asks slurmctld for its count every `every_s` seconds, whether or not it answered before."""

    def __init__(self, read_diagnosis: DiagnosisReader, every_s: int) -> None:
        self._read_diagnosis, self._every_s = read_diagnosis, every_s
        self._asked_at: int | None = None

    def poll_if_due(self, store: Store, cluster_id: int, now: int) -> None:
        if self._asked_at is not None and now < self._asked_at + self._every_s:
            return
        self._asked_at = now
        try:
            usage = compute_usage(*self._read_diagnosis())
        except ClusterError as error:
            _log.warning("slurmctld does not answer sdiag", error=str(error))
            return
        with store.begin() as tx:
            reports.put_report(tx, cluster_id, _KIND, asdict(usage), at=usage.at)
