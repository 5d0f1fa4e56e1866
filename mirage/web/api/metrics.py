"""Mirage's metrics for Prometheus. None is about a single user, job or chain."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirage.database.chains import chain_counts, decisions
from mirage.database.chains.handover_outcomes import sum_returns_saved
from mirage.database.chains.open_links import count_planned_standbys
from mirage.database.chains.returned_links import count_returns, sum_returned
from mirage.database.forecasts import handover_forecasts
from mirage.database.jobs import queue_sums
from mirage.database.operations import clusters, telemetry
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import PARTITIONS
from mirage.domain.time_units import DAY_S
from mirage.reports import slurmctld_load
from mirage.reports.slurmctld_load import RpcUsage
from mirage.web.shared.context import ApiContext

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HANDOVERS = 100
"""The number of hand-overs, the last ones, from which the forecast error is computed."""


def render_metrics(context: ApiContext) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StoreCollector(context))
    return generate_latest(registry)


class _StoreCollector(Collector):
    """Collects the metrics from the store at each scrape, the same in every process of the
    service."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    def collect(self) -> Iterable[Metric]:
        with self._context.store.read() as tx:
            metrics = [*_collect_store_metrics(tx, self._context)]
        return [*metrics, *_collect_command_metrics(self._context)]


def _collect_store_metrics(tx: Transaction, context: ApiContext) -> Iterator[Metric]:
    states = GaugeMetricFamily("mirage_chains", "Number of chains by state.", labels=["state"])
    for state, number in chain_counts.count_chains_by_state(tx, context.cluster_id).items():
        states.add_metric([state.value], number)
    yield states
    risky = GaugeMetricFamily(
        "mirage_chains_at_risk", "Number of chains at risk by reason.", labels=["reason"]
    )
    for reason, number in chain_counts.count_chains_at_risk(tx, context.cluster_id).items():
        risky.add_metric([reason], number)
    yield risky
    effects = CounterMetricFamily(
        "mirage_decisions", "Number of decisions by effect.", labels=["effect"]
    )
    for effect, number in decisions.count_decisions_by_effect(tx, context.cluster_id).items():
        effects.add_metric([effect.value], number)
    yield effects
    plans = GaugeMetricFamily(
        "mirage_standbys_planned",
        "Standbys with a planned release in Slurm, by who planned it.",
        labels=["by"],
    )
    for planner, number in count_planned_standbys(tx, context.cluster_id).items():
        plans.add_metric([planner.value], number)
    yield plans
    yield CounterMetricFamily(
        "mirage_returns",
        "How often early links gave their nodes back.",
        value=count_returns(tx, context.cluster_id),
    )
    yield CounterMetricFamily(
        "mirage_returned_node_seconds",
        "Node time for which early links held the nodes that they gave back.",
        value=sum_returned(tx, context.cluster_id),
    )
    yield CounterMetricFamily(
        "mirage_returns_saved_node_seconds",
        "Node time for which these nodes would have stood idle in complete hand-overs.",
        value=sum_returns_saved(tx, context.cluster_id),
    )
    modes = GaugeMetricFamily(
        "mirage_mode", "1 for the mode in force, by partition.", labels=["partition", "mode"]
    )
    in_force = read_modes(tx, context.cluster_id)
    in_force = in_force.hide_names() if PARTITIONS in context.hidden() else in_force
    for partition, mode in {"": in_force.cluster_mode, **in_force.own_modes}.items():
        modes.add_metric([partition, mode.value], 1)
    yield modes
    yield from _collect_forecast_errors(tx, context)
    yield GaugeMetricFamily(
        "mirage_kill_switch",
        "1 while the kill switch is pulled.",
        value=bool(in_force.pulled),
    )
    until = clusters.read_lease_end(tx, context.cluster_id)
    if until is not None:
        yield GaugeMetricFamily(
            "mirage_worker_lease_seconds",
            "Seconds until the lease of the acting worker ends; negative: seconds since it ended.",
            value=until - context.clock(),
        )
    yield from _collect_slurmctld_metrics(slurmctld_load.read_last_usage(tx, context.cluster_id))
    unread = GaugeMetricFamily(
        "mirage_slurm_unread_rows",
        "Rows of Slurm's answers that Mirage could not read and left out in the last 24 hours.",
        labels=["command"],
    )
    since = context.clock() - DAY_S
    for command, counts in telemetry.sum_calls_by_command(tx, context.cluster_id, since).items():
        unread.add_metric([command], counts.unread)
    yield unread
    latest = queue_sums.find_latest_snapshot(tx, context.cluster_id)
    if latest is not None:
        age = context.clock() - latest.taken_at
        yield GaugeMetricFamily(
            "mirage_last_poll_age_seconds", "Seconds since Mirage last read the queue.", value=age
        )


def _collect_forecast_errors(tx: Transaction, context: ApiContext) -> Iterator[Metric]:
    errors = handover_forecasts.list_errors(tx, context.cluster_id, _HANDOVERS)
    yield GaugeMetricFamily(
        "mirage_forecast_handovers",
        "Number of hand-overs from which the forecast error is computed.",
        value=len(errors),
    )
    if errors:
        mean = sum(abs(error) for error in errors) / len(errors)
        yield GaugeMetricFamily(
            "mirage_forecast_error_seconds",
            "Mean absolute error of the forecasts in seconds.",
            value=mean,
        )


def _collect_slurmctld_metrics(rpc_usage: RpcUsage | None) -> Iterator[Metric]:
    """Yield slurmctld's counts, which start again at zero each midnight as counters may."""
    if rpc_usage is None:
        return
    calls = CounterMetricFamily(
        "mirage_slurmctld_rpcs", "RPCs that slurmctld counts (sdiag), by caller.", labels=["by"]
    )
    seconds = CounterMetricFamily(
        "mirage_slurmctld_rpc_seconds",
        "Seconds that slurmctld took for these RPCs, by caller.",
        labels=["by"],
    )
    calls.add_metric(["mirage"], rpc_usage.calls)
    calls.add_metric(["others"], rpc_usage.all_calls - rpc_usage.calls)
    seconds.add_metric(["mirage"], rpc_usage.seconds)
    seconds.add_metric(["others"], rpc_usage.all_seconds - rpc_usage.seconds)
    yield from (calls, seconds)


def _collect_command_metrics(context: ApiContext) -> Iterator[Metric]:
    if context.usage is None:
        return
    calls = CounterMetricFamily(
        "mirage_slurm_commands", "Number of Slurm commands that Mirage ran.", labels=["command"]
    )
    failures = CounterMetricFamily(
        "mirage_slurm_command_failures",
        "Number of Slurm commands that gave no answer.",
        labels=["command"],
    )
    seconds = CounterMetricFamily(
        "mirage_slurm_command_seconds",
        "Seconds that Mirage spent in Slurm commands.",
        labels=["command"],
    )
    for command, cost in context.usage().items():
        calls.add_metric([command], cost.calls)
        failures.add_metric([command], cost.failures)
        seconds.add_metric([command], cost.seconds)
    yield from (calls, failures, seconds)
