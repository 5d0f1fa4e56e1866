"""What a rehearsal plays on: a machine, the load of its users, and which part of that load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mirage.cli.cluster_file import read_site
from mirage.cluster.simulated.cluster import SimulatedCluster
from mirage.errors import InputError
from mirage.sim.types import Params, SimJob
from mirage.studies import policy_comparison
from mirage.studies.policy_comparison import Plan
from mirage.traces.workloads import replay, synthetic

WARM_UP_DAYS = 14
"""The queue of the heavy preset builds up in its first two weeks."""
PRESET = "heavy"
SEED = 1

_DAY_S = 86400
_HOUR_S = 3600
_DAYS = 90


@dataclass(frozen=True, slots=True)
class Stage:
    """The machine, and what its users submit in the order of submission."""

    params: Params
    jobs: Sequence[SimJob]

    @property
    def first(self) -> int:
        return self.jobs[0].submit

    @property
    def last(self) -> int:
        """Later the cluster only empties: nothing that happens then is like a site."""
        return self.jobs[-1].submit

    def world(self, plan: Plan, start: int) -> SimulatedCluster:
        """The machine before its first job, with room for the chains."""
        jobs = [*policy_comparison.forerunners(plan, self.jobs, start), *self.jobs]
        return SimulatedCluster(with_room(self.params, plan.room), jobs, now=self.first)


def with_room(params: Params, room: int) -> Params:
    """The machine with `room` more nodes like its last one, in the default partition.

    Where a partition has all nodes it has those too. The default one loses its MaxTime: the chains'
    places are kept by jobs longer than that.
    """
    default, *others = params.partitions
    added = tuple(range(params.nodes, params.nodes + room)) if default.nodes else ()
    default = replace(default, nodes=(*default.nodes, *added), max_time_s=0)
    *groups, last = params.node_groups or (None,)
    return replace(
        params,
        nodes=params.nodes + room,
        partitions=(default, *others),
        node_groups=() if last is None else (*groups, replace(last, count=last.count + room)),
    )


def staged(preset: str | None, seed: int | None, trace: Path | None, cluster: Path | None) -> Stage:
    """The replay of `trace`, or without one a synthetic load."""
    if trace is None:
        chosen = PRESET if preset is None else preset
        return _synthetic(chosen, SEED if seed is None else seed, cluster)
    if preset is not None or seed is not None:
        raise InputError(
            "--trace replays a log, --preset and --seed are of a synthetic load: leave out either"
        )
    return _logged(trace, cluster)


def window(
    stage: Stage, plan: Plan, begin: datetime | None, until: datetime | None
) -> tuple[int, int]:
    """When the first chains are submitted, and when whatever still runs is left alone.

    An `until` after the load is its end: later the cluster only empties.
    Raises InputError for chains or instants of which no hand-over can come.
    """
    _check_size(stage, plan)
    start = stage.first + WARM_UP_DAYS * _DAY_S if begin is None else _begin(stage, begin)
    stop = min(start + plan.longest_s if until is None else _instant(until), stage.last)
    if until is not None and stop <= start:
        raise InputError(
            f"--until {_second(stop)} must lie after {_second(start)}, "
            "when the first chains are submitted"
        )
    if stop - start <= plan.time_limit_s:
        raise InputError(
            f"no hand-over fits: the first chains are submitted at {_second(start)}, the end is "
            f"at {_second(stop)}, and one link takes {plan.time_limit_s // _HOUR_S} h. "
            "Choose an earlier --from or a later --until"
        )
    return start, stop


def _check_size(stage: Stage, plan: Plan) -> None:
    have = stage.params.nodes
    if plan.nodes > have:
        raise InputError(
            f"--nodes {plan.nodes}: a link has at most the {have} nodes of cluster "
            f"{stage.params.name}"
        )


def _begin(stage: Stage, given: datetime) -> int:
    instant = _instant(given)
    if not stage.first <= instant <= stage.last:
        raise InputError(
            f"--from {_second(instant)} lies outside the load, which is submitted "
            f"from {_second(stage.first)} to {_second(stage.last)} (UTC)"
        )
    return instant


def _instant(given: datetime) -> int:
    return int(given.replace(tzinfo=UTC).timestamp())


def _synthetic(preset: str, seed: int, cluster: Path | None) -> Stage:
    params = Params() if cluster is None else read_site(cluster)
    jobs = synthetic.generate_workload(preset, nodes=params.nodes, days=_DAYS, seed=seed)
    return Stage(params, jobs)


def _logged(trace: Path, cluster: Path | None) -> Stage:
    if cluster is None:
        raise InputError("--trace needs --cluster: the file that describes its machine")
    params = read_site(cluster)
    jobs = replay.load_workload(trace, params).jobs
    if not jobs:
        raise InputError(f"{trace} has no job that {params.nodes} nodes could run")
    return Stage(params, jobs)


def _second(instant: int) -> str:
    """As --from and --until take it."""
    return datetime.fromtimestamp(instant, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
