"""How long an observation takes, on Lonestar6's trace: `python -m tests.support.features.speed`.

Needs ../shared. Prints microseconds, the least of many short rounds: a busy machine
takes long ones apart.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from mirage.features.handover_input import HandoverInput
from mirage.features.observation import feature_vector
from mirage.features.observation.queue_view import LinkQueueView
from mirage.features.observation.running_stats import RunningStats
from mirage.features.observation.sim_columns import compute_usual_limits
from mirage.sim.simulator import Simulator
from mirage.sim.types import SimJob, build_afterany
from mirage.traces.cluster_files.reader import load_cluster_params
from mirage.traces.workloads.replay import load_workload
from tests.support.paths import SHARED

_DAY_S = 86400
_MOMENTS = (1_676_300_000, 1_676_728_000, 1_677_063_000)
"""13, 18 and 22 February 2023: a short queue, a usual one, and the longest of that winter."""


def least_us(call: Callable[[], object], *, rounds: int = 500, calls: int = 3) -> float:
    for _ in range(200):
        call()
    best = float("inf")
    for _ in range(rounds):
        began = perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (perf_counter() - began) / calls)
    return round(best * 1e6, 1)


def main() -> None:
    params = load_cluster_params(SHARED / "clusters" / "ls6.toml")
    simulator = Simulator(
        params, load_workload(SHARED / "traces" / "tacc-ls6-a100.parquet", params)
    )
    memory = RunningStats()
    for moment in _MOMENTS:
        while simulator.now < moment:
            simulator.forget_ended(simulator.now)
            memory.record_events(simulator, simulator.advance(min(moment, simulator.now + _DAY_S)))
        measure(simulator.fork(), memory.fork())


def measure(simulator: Simulator, memory: RunningStats) -> None:
    predecessor = simulator.list_running()[0]
    start = predecessor.start or 0
    job = SimJob(nodes=1, time_limit_s=2 * _DAY_S, run_s=2 * _DAY_S, user="pair")
    behind = replace(job, dependencies=build_afterany(predecessor.job_id))
    link = HandoverInput(
        nodes=1,
        time_limit_s=job.time_limit_s,
        user=job.user,
        predecessor_submit=predecessor.submit,
        predecessor_start=start,
        predecessor_end=start + predecessor.job.time_limit_s,
    )
    standby = simulator.inject(behind)
    known = replace(link, job_id=standby)
    columns = simulator.get_live_columns()
    view = LinkQueueView.from_simulator(simulator, link, memory.users)
    usual = compute_usual_limits(
        simulator.arena.state,
        memory.users.map_associations(simulator.arena.names.associations),
        memory.get_past(simulator.now),
        standby,
    )
    out = sys.stdout.write
    out(f"{len(columns.queued)} jobs pending, {len(columns.running)} running\n")
    cases = {
        "from_simulator, in the queue": lambda: feature_vector.observe_simulator(
            simulator, known, memory
        ),
        "from_simulator, not in the queue": lambda: feature_vector.observe_simulator(
            simulator, link, memory
        ),
        "  the view": lambda: LinkQueueView.from_simulator(simulator, link, memory.users),
        "  the numbers": lambda: feature_vector.build_observation(view, link, memory, None, None),
        "  the plan by limits": lambda: simulator.plan_unrestricted(standby),
        "  the plan as usual": lambda: simulator.plan_unrestricted(standby, usual),
        "fork of the memory": memory.fork,
    }
    for name, call in cases.items():
        out(f"{name:40} {least_us(call):8.1f} us\n")


if __name__ == "__main__":
    main()
