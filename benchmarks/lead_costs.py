"""What freeing the standby a constant lead before its predecessor's end costs, against the oracle.

`python -m benchmarks.lead_costs heavy`: one-node 48 h predecessors at random instants; the outcome
of each instant comes from a fork of the same run. Cost = interruption + 0.5 overlap, hours. Simple
rules are replayed every ten minutes on the same pairs; the oracle knows every half hour.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, Record, SimJob
from mirage.traces import synthetic

LEADS_H = (0, 0.25, 0.5, 1, 2, 4, 8, 12, 20, 30, 47)
TICK_S, ORACLE_TICK_S = 600, 1800
_HOUR_S, _DAY_S = 3600, 86400
_LONG = SimJob(time_limit_s=48 * _HOUR_S, run_s=48 * _HOUR_S, user="chain")
_FOREVER = 2**40

Rule = Callable[[Simulator], float]


def started_after(sim: Simulator) -> int:
    """Start of a successor that becomes eligible now, from a fork."""
    fork = sim.fork()
    job_id = fork.inject(_LONG)
    while (start := fork.records[job_id].start) is None:
        fork.step(_FOREVER)
    return start


def _started(sim: Simulator) -> list[Record]:
    records = [*sim.ended[-3000:], *sim.records.values()]
    return sorted((r for r in records if r.start is not None), key=lambda r: r.start or 0)


def _wait_h(record: Record) -> float:
    return ((record.start or 0) - (record.eligible or 0)) / _HOUR_S


def average(sim: Simulator) -> float:
    return float(np.mean([_wait_h(r) for r in _started(sim)[-100:]]))


def quantile(sim: Simulator) -> float:
    alike = [r for r in _started(sim) if r.job.nodes == 1 and r.job.time_limit_s == 48 * _HOUR_S]
    return float(np.quantile([_wait_h(r) for r in alike[-50:]] or [0.0], 2 / 3))


def estimate(sim: Simulator) -> float:
    """The simulator's own plan, as `sbatch --test-only` tells it; beyond the window: the window."""
    fork = sim.fork()
    job_id = fork.inject(_LONG)
    fork.step(fork.now)
    record = fork.records[job_id]
    start = record.start or fork.planned_starts().get(job_id, fork.now + 48 * _HOUR_S)
    return (start - sim.now) / _HOUR_S


RULES: dict[str, Rule] = {"average": average, "quantile 2/3": quantile, "slurm-estimate": estimate}


def pair(sim: Simulator, rules: dict[str, Rule]) -> dict[str, float]:
    """Signed outcomes in hours (start of successor - end of predecessor) of one pair from now."""
    job_id = sim.inject(_LONG)
    while (start := sim.records[job_id].start) is None:
        sim.step(_FOREVER)
    end = start + 48 * _HOUR_S
    outcome: dict[str, float] = {}
    every: list[float] = []
    leads = {int(end - lead * _HOUR_S): lead for lead in LEADS_H}
    waiting = dict(rules)
    for at in sorted({*leads, *range(end - 48 * _HOUR_S + TICK_S, end + 1, TICK_S)}):
        sim.advance(at)
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
        x: NDArray[np.float64] = np.array([o[name] for o in outcomes])
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
    sim = Simulator(Params(), synthetic.workload(args.preset, days=days, seed=args.seed))
    rng = np.random.default_rng(args.seed)
    instants = np.sort(rng.integers(14 * _DAY_S, (days - 8) * _DAY_S, args.pairs))
    outcomes = []
    for instant in instants:
        sim.advance(synthetic.EPOCH + int(instant))
        outcomes.append(pair(sim.fork(), RULES))
    print(f"{args.preset}, seed {args.seed}, {args.pairs} pairs, {Params().nodes} nodes")
    print(table(outcomes))


if __name__ == "__main__":
    main()
