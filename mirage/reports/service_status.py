"""Reports on the service: its worker, its lease, its cost for Slurm, its versions."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from mirage.database.operations import telemetry
from mirage.database.operations.telemetry import CallCounts, WorkerTick
from mirage.database.schema.engine import Transaction, read_schema_version
from mirage.database.schema.tables import SCHEMA
from mirage.domain.time_units import HOUR_S
from mirage.slurm.clients.call_stats import CallTotals

_PACKAGE = "mirage-provisioner"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    tick: WorkerTick | None
    """The worker's last tick; None if there was none yet."""
    lease_holder: str | None
    lease_until: int | None
    database_bytes: int
    schema: str | None
    schema_known: str
    """The schema version that this program needs."""
    versions: Mapping[str, str]


def read_status(tx: Transaction, cluster_id: int) -> ServiceStatus:
    lease = telemetry.find_lease(tx, cluster_id)
    return ServiceStatus(
        tick=telemetry.find_last_tick(tx, cluster_id),
        lease_holder=None if lease is None else lease[0],
        lease_until=None if lease is None else lease[1],
        database_bytes=telemetry.measure_size_bytes(tx),
        schema=read_schema_version(tx),
        schema_known=SCHEMA,
        versions={
            "mirage": get_own_version(),
            "python": platform.python_version(),
            "database": telemetry.read_database_version(tx),
        },
    )


def get_own_version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """The cost of asking Slurm one kind of question."""

    command: str
    calls: int
    failures: int
    seconds: float
    unread: int
    """Rows that could not be read and were left out, summed over all answers."""
    a_minute: float
    """Calls per minute, on average over the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingCost:
    """The cost of asking Slurm, in whole hours."""

    since: int
    until: int
    total: CallCost
    commands: tuple[CallCost, ...]
    """By kind of question; the one that took most seconds first."""
    hours: tuple[tuple[int, int], ...]
    """Each hour (epoch seconds) with its calls, oldest first; hours without calls are left out."""


def read_polling_cost(tx: Transaction, cluster_id: int, *, now: int, hours: int) -> PollingCost:
    """Return the cost of asking Slurm in the last `hours` hours, the present one among them."""
    since = now - now % HOUR_S - (hours - 1) * HOUR_S
    by_command = telemetry.sum_calls_by_command(tx, cluster_id, since)
    by_hour = telemetry.sum_calls_by_hour(tx, cluster_id, since)
    began = by_hour[0][0] if by_hour else since
    minutes = max(1.0, (now - began) / 60)
    costs = [_build_cost(command, counts, minutes) for command, counts in by_command.items()]
    whole = CallCounts(
        calls=sum(cost.calls for cost in costs),
        failures=sum(cost.failures for cost in costs),
        seconds=sum(cost.seconds for cost in costs),
        unread=sum(cost.unread for cost in costs),
    )
    return PollingCost(
        since=began,
        until=now,
        total=_build_cost("all", whole, minutes),
        commands=tuple(sorted(costs, key=lambda cost: (-cost.seconds, cost.command))),
        hours=tuple(by_hour),
    )


def _build_cost(command: str, counts: CallCounts, minutes: float) -> CallCost:
    return CallCost(
        command=command,
        calls=counts.calls,
        failures=counts.failures,
        seconds=counts.seconds,
        unread=counts.unread,
        a_minute=counts.calls / minutes,
    )


class TickRecorder:
    """Records each tick of the worker, and the cost of asking Slurm since the last one."""

    def __init__(self, holder: str, usage: Callable[[], Mapping[str, CallTotals]] | None) -> None:
        """`holder` names the worker. `usage` returns the process's calls since its start; None if
        there is no Slurm."""
        self._holder, self._usage = holder, usage
        # Read once: the version is in a file, and the process may run out of descriptors later.
        self._version = get_own_version()
        self._recorded_usage: Mapping[str, CallTotals] = {}

    def record_tick(
        self, tx: Transaction, cluster_id: int, now: int, *, took_s: float, error: str
    ) -> None:
        """Record a tick that took `took_s` seconds; `error` says why it failed, if it did."""
        tick = WorkerTick(
            at=now,
            took_s=took_s,
            good_at=None if error else now,
            holder=self._holder,
            error=error,
            version=self._version,
        )
        telemetry.record_tick(tx, cluster_id, tick)
        if self._usage is None:
            return
        before, self._recorded_usage = self._recorded_usage, self._usage()
        since = {
            kind: _subtract_usage(usage, before.get(kind))
            for kind, usage in self._recorded_usage.items()
        }
        new_calls = {kind: counts for kind, counts in since.items() if counts.calls}
        telemetry.add_calls(tx, cluster_id, now, new_calls)


def _subtract_usage(usage: CallTotals, before: CallTotals | None) -> CallCounts:
    earlier = before or CallTotals()
    return CallCounts(
        calls=usage.calls - earlier.calls,
        failures=usage.failures - earlier.failures,
        seconds=usage.seconds - earlier.seconds,
        unread=usage.unread - earlier.unread,
    )
