"""What freeing the standby a constant lead before its predecessor's end costs, against the oracle.

`python -m benchmarks.lead_costs heavy`: one-node 48 h predecessors at random instants; the outcome
of each instant comes from a fork of the same run. Cost = interruption + 0.5 overlap, hours. Simple
rules are replayed every ten minutes on the same pairs; the oracle knows every half hour.
"""

import argparse
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mirage.sim.packing.workload import Workload
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob
from mirage.traces.workloads import synthetic

LEADS_H = (0, 0.25, 0.5, 1, 2, 4, 8, 12, 20, 30, 47)
TICK_S, ORACLE_TICK_S = 600, 1800
_HOUR_S, _DAY_S = 3600, 86400
_LONG = SimJob(time_limit_s=48 * _HOUR_S, run_s=48 * _HOUR_S, user="chain")
_FOREVER = 2**40

Floats = NDArray[np.float64]
Rule = Callable[[Simulator], float]


def started_after(sim: Simulator) -> int:
    """Start of a successor that becomes eligible now, from a fork."""
    fork = sim.fork()
    return _start(fork, fork.inject(_LONG))


def _start(sim: Simulator, job_id: int) -> int:
    start = sim.run_until_started(job_id, _FOREVER)
    assert start is not None  # noqa: S101 - a one-node job gets its turn
    return start


def _waits_h(sim: Simulator, among: NDArray[np.bool_], latest: int) -> Floats:
    """Of the jobs that started last, hours; no job of the workload waits for another's end."""
    rows = np.flatnonzero(among & (sim.start >= 0))
    last = rows[np.argsort(sim.start[rows], kind="stable")[-latest:]]
    return np.asarray((sim.start[last] - sim.workload.submit[last]) / _HOUR_S)


def average(sim: Simulator) -> float:
    return float(np.mean(_waits_h(sim, np.ones(len(sim.workload), dtype=bool), 100)))


def quantile(sim: Simulator) -> float:
    waits = _waits_h(sim, _alike(sim.workload), 50)
    return float(np.quantile(waits, 2 / 3)) if len(waits) else 0.0


@lru_cache(maxsize=1)
def _alike(workload: Workload) -> NDArray[np.bool_]:
    return np.array([j.nodes == 1 and j.time_limit_s == _LONG.time_limit_s for j in workload.jobs])


def estimate(sim: Simulator) -> float:
    """The simulator's own plan, as `sbatch --test-only` tells it; beyond the window: the window."""
    start = sim.plan_job(_LONG)
    return 48.0 if start is None else (start - sim.now) / _HOUR_S


RULES: dict[str, Rule] = {"average": average, "quantile 2/3": quantile, "slurm-estimate": estimate}


def pair(sim: Simulator, rules: dict[str, Rule]) -> dict[str, float]:
    """Signed outcomes in hours (start of successor - end of predecessor) of one pair from now."""
    job_id = sim.inject(_LONG)
    end = _start(sim, job_id) + 48 * _HOUR_S
    outcome: dict[str, float] = {}
    every: list[float] = []
    leads = {int(end - lead * _HOUR_S): lead for lead in LEADS_H}
    waiting = dict(rules)
    for at in sorted({*leads, *range(end - 48 * _HOUR_S + TICK_S, end + 1, TICK_S)}):
        sim.advance_quietly(at)
        asked = [n for n, rule in waiting.items() if at == end or rule(sim) >= (end - at) / _HOUR_S]
        if not asked and at not in leads and (end - at) % ORACLE_TICK_S:
            continue
        exact = (started_after(sim) - end) / _HOUR_S
        every.append(exact)
        outcome |= dict.fromkeys(asked, exact)
        waiting = {n: rule for n, rule in waiting.items() if n not in asked}
        if at in leads:
            outcome[f"lead {leads[at]} h"] = exact
    outcome["oracle"] = min(every, key=cost)
    return outcome


def cost(signed: float) -> float:
    return signed if signed > 0 else -0.5 * signed


def table(outcomes: list[dict[str, float]]) -> str:
    rows = [f"{'':16}{'interruption':>13}{'overlap':>9}{'cost':>8}{'zero':>7}{'vs reactive':>13}"]
    reactive = np.mean([cost(o["lead 0 h"]) for o in outcomes])
    for name in [f"lead {lead} h" for lead in LEADS_H] + [*RULES, "oracle"]:
        x: Floats = np.array([o[name] for o in outcomes])
        costs = np.mean([cost(v) for v in x])
        late, early = np.maximum(x, 0).mean(), np.maximum(-x, 0).mean()
        label = "reactive" if name == "lead 0 h" else name
        rows.append(
            f"{label:16}{late:13.2f}{early:9.2f}{costs:8.2f}{np.mean(x <= 0):7.0%}"
            f"{1 - costs / reactive:13.0%}"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", choices=[*synthetic.PRESETS])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    days = 50
    sim = Simulator(Params(), synthetic.generate_workload(args.preset, days=days, seed=args.seed))
    rng = np.random.default_rng(args.seed)
    instants = np.sort(rng.integers(14 * _DAY_S, (days - 8) * _DAY_S, args.pairs))
    outcomes = []
    for instant in instants:
        sim.advance_quietly(synthetic.EPOCH + int(instant))
        outcomes.append(pair(sim.fork(with_results=True), RULES))
    print(f"{args.preset}, seed {args.seed}, {args.pairs} pairs, {Params().nodes} nodes")
    print(table(outcomes))


if __name__ == "__main__":
    main()
