"""A scenario: a machine, the load of its users, and the part of that load that is replayed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.history.workloads import replay, synthetic
from mirage.lab.demo import policy_comparison
from mirage.lab.demo.comparison_plan import PRESET, SEED, ComparisonPlan
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.simulator.types import Params, SimJob

_DAYS = 90


@dataclass(frozen=True, slots=True)
class Scenario:
    """The machine, and its users' jobs in the order of submission."""

    params: Params
    jobs: Sequence[SimJob]

    @property
    def first(self) -> int:
        return self.jobs[0].submit

    @property
    def last(self) -> int:
        """The last submission, epoch seconds. Later the cluster only empties, as no real site
        does."""
        return self.jobs[-1].submit

    def build_cluster(self, plan: ComparisonPlan, start: int) -> SimulatedCluster:
        """Build the cluster before its first job, with room for the chains."""
        jobs = [*policy_comparison.build_placeholder_jobs(plan, self.jobs, start), *self.jobs]
        return SimulatedCluster(add_nodes(self.params, plan.room), jobs, now=self.first)


def add_nodes(params: Params, count: int) -> Params:
    """Add `count` nodes like the last node to the machine, in the default partition.

    A partition that has all nodes gets the new ones too. The default partition loses its MaxTime,
    since placeholder jobs for the chains run longer than that.
    """
    default, *others = params.partitions
    new_nodes = tuple(range(params.nodes, params.nodes + count)) if default.nodes else ()
    default = replace(default, nodes=(*default.nodes, *new_nodes), max_time_s=0)
    *groups, last = params.node_groups or (None,)
    return replace(
        params,
        nodes=params.nodes + count,
        partitions=(default, *others),
        node_groups=() if last is None else (*groups, replace(last, count=last.count + count)),
    )


def build_scenario(
    preset: str | None,
    seed: int | None,
    trace: Path | None,
    cluster: Path | None,
    load_params: Callable[[Path], Params],
    nodes: int = Params().nodes,
) -> Scenario:
    """Build the replay of `trace`, or without one a synthetic load.

    `load_params` reads a cluster file; without one the cluster has `nodes` nodes. Raises InputError
    where the files and options name no load that can be replayed.
    """
    if trace is None:
        params = Params(nodes=nodes) if cluster is None else load_params(cluster)
        load_preset = PRESET if preset is None else preset
        return _build_synthetic(load_preset, SEED if seed is None else seed, params)
    if preset is not None or seed is not None:
        raise InputError(
            "--trace replays a log, and --preset and --seed make a synthetic load: "
            "give --trace or the other two"
        )
    if cluster is None:
        raise InputError("--trace needs --cluster FILE, which describes the machine of the log")
    return _build_from_log(trace, load_params(cluster))


def choose_window(
    scenario: Scenario, plan: ComparisonPlan, begin: datetime | None, until: datetime | None
) -> tuple[int, int]:
    """Return when the first chains are submitted, and when chains still running are left alone.

    An `until` after the load counts as the load's end, because later the cluster only empties.
    Raises InputError for chains or instants that cannot give any hand-over.
    """
    _check_size(scenario, plan)
    start = (
        scenario.first + plan.warm_up_days * DAY_S
        if begin is None
        else _resolve_begin(scenario, begin)
    )
    stop = min(start + plan.longest_s if until is None else _to_epoch_s(until), scenario.last)
    if until is not None and stop <= start:
        raise InputError(
            f"--until {_format_second(stop)} must lie after {_format_second(start)}, "
            "when the first chains are submitted"
        )
    if stop - start <= plan.time_limit_s:
        raise InputError(
            f"no hand-over fits: the first chains are submitted at {_format_second(start)}, the "
            f"end is at {_format_second(stop)}, and one link takes {plan.time_limit_s // HOUR_S} "
            "h. Choose an earlier --from or a later --until"
        )
    return start, stop


def _check_size(scenario: Scenario, plan: ComparisonPlan) -> None:
    node_count = scenario.params.nodes
    if plan.nodes > node_count:
        raise InputError(
            f"--nodes {plan.nodes} is too many: cluster {scenario.params.name} has "
            f"{node_count} nodes"
        )


def _resolve_begin(scenario: Scenario, begin: datetime) -> int:
    instant = _to_epoch_s(begin)
    if not scenario.first <= instant <= scenario.last:
        raise InputError(
            f"--from {_format_second(instant)} lies outside the load: choose an instant from "
            f"{_format_second(scenario.first)} to {_format_second(scenario.last)} (UTC)"
        )
    return instant


def _to_epoch_s(instant: datetime) -> int:
    return int(instant.replace(tzinfo=UTC).timestamp())


def _build_synthetic(preset: str, seed: int, params: Params) -> Scenario:
    jobs = synthetic.generate_workload(preset, nodes=params.nodes, days=_DAYS, seed=seed)
    return Scenario(params, jobs)


def _build_from_log(trace: Path, params: Params) -> Scenario:
    jobs = replay.load_workload(trace, params).jobs
    if not jobs:
        raise InputError(f"{trace} has no job that fits the {params.nodes} nodes of the cluster")
    return Scenario(params, jobs)


def _format_second(instant: int) -> str:
    """Format an instant in the form that --from and --until accept."""
    return datetime.fromtimestamp(instant, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
