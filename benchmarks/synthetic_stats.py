"""The synthetic workload beside the published figures: `python -m benchmarks.synthetic_stats`."""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob
from mirage.traces.workloads import synthetic

PUBLISHED = {
    "one-node share": 0.80,
    "48 h share": 0.238,
    "run/limit mean": 0.29,
    "run/limit median": 0.05,
    "share at the limit": 0.163,
    "cancelled waiting": 0.134,
    "share of 10 first users": 0.315,
    "busiest hour share": 0.079,
    "weekend share": 0.215,
    "in bursts of 5+": 0.30,
}
"""Published figures of Lonestar6's queue gpu-a100; the last four are from its log."""

WARM_UP_DAYS = 14
_HOUR_S, _DAY_S = 3600, 86400
_LONG_S = 48 * _HOUR_S
_FOREVER = 2**40


def statistics(jobs: Sequence[SimJob]) -> dict[str, float]:
    """Under the names of PUBLISHED; jobs cancelled while waiting count as run for no time."""
    submit = np.array([j.submit for j in jobs])
    limit = np.array([j.time_limit_s for j in jobs])
    cancelled = np.array([j.cancel_at is not None for j in jobs])
    ratio = np.where(cancelled, 0.0, np.minimum(1.0, [j.run_s for j in jobs] / limit))
    per_user = np.sort(np.unique([j.user for j in jobs], return_counts=True)[1])[::-1]
    hours = np.bincount(submit // _HOUR_S % 24, minlength=24)
    weekday = (submit - synthetic.EPOCH) // _DAY_S % 7
    return {
        "one-node share": float(np.mean([j.nodes == 1 for j in jobs])),
        "48 h share": float(np.mean(limit == _LONG_S)),
        "run/limit mean": float(ratio.mean()),
        "run/limit median": float(np.median(ratio)),
        "share at the limit": float(np.mean(ratio >= 1)),
        "cancelled waiting": float(cancelled.mean()),
        "share of 10 first users": float(per_user[:10].sum() / len(jobs)),
        "busiest hour share": float(hours.max() / len(jobs)),
        "weekend share": float(np.mean(weekday >= 5)),
        "in bursts of 5+": _burst_share(jobs),
    }


def _burst_share(jobs: Sequence[SimJob]) -> float:
    """Jobs in runs of five or more of one user and shape with gaps under ten minutes."""
    last: dict[tuple[str, int, int], int] = {}
    size: dict[tuple[str, int, int], int] = {}
    long = 0
    for j in jobs:
        key = (j.user, j.nodes, j.time_limit_s)
        near = j.submit - last.get(key, -_DAY_S) < 600
        size[key] = size.get(key, 0) + 1 if near else 1
        long += 5 if size[key] == 5 else int(size[key] > 5)
        last[key] = j.submit
    return long / len(jobs)


def reactive_waits(jobs: Sequence[SimJob], params: Params, *, days: int) -> NDArray[np.float64]:
    """Hours that a one-node 48 h job would wait if it became eligible: every 6 h after warm-up."""
    sim = Simulator(params, jobs)
    waits: list[float] = []
    at = synthetic.EPOCH + WARM_UP_DAYS * _DAY_S
    while at < synthetic.EPOCH + (days - 3) * _DAY_S:
        sim.advance_quietly(at)
        fork = sim.fork()
        job_id = fork.inject(SimJob(time_limit_s=_LONG_S, run_s=_LONG_S, user="probe"))
        start = fork.run_until_started(job_id, _FOREVER)
        assert start is not None  # noqa: S101 - a one-node job gets its turn
        waits.append((start - at) / _HOUR_S)
        at += 6 * _HOUR_S + 1234
    return np.array(waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=45)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    long = statistics(synthetic.generate_workload("medium", days=150))
    print(f"{'':26}{'published':>10}{'synthetic':>11}")
    for name, value in PUBLISHED.items():
        print(f"{name:26}{value:10.3f}{long[name]:11.3f}")
    print(f"\nwait of a one-node 48 h job, h{'mean':>8}{'median':>8}{'p90':>8}{'zero':>8}")
    for preset in synthetic.PRESETS:
        for seed in range(args.seeds):
            jobs = synthetic.generate_workload(preset, days=args.days, seed=seed)
            w = reactive_waits(jobs, Params(), days=args.days)
            row = (w.mean(), np.median(w), np.quantile(w, 0.9), np.mean(w < 0.05))
            print(f"{preset:20} seed {seed:4}" + "".join(f"{x:8.2f}" for x in row))


if __name__ == "__main__":
    main()
