"""The synthetic workload keeps to the published figures and to its presets' load classes."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from mirage.errors import InputError
from mirage.history.workloads import synthetic
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

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
TOLERANCE = {
    "one-node share": 0.02,
    "48 h share": 0.04,
    "run/limit mean": 0.03,
    "run/limit median": 0.03,
    "share at the limit": 0.02,
    "cancelled waiting": 0.02,
    "share of 10 first users": 0.03,
    "busiest hour share": 0.01,
    "weekend share": 0.03,
    "in bursts of 5+": 0.07,
}


def compute_statistics(jobs: Sequence[SimJob]) -> dict[str, float]:
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
        "in bursts of 5+": compute_burst_share(jobs),
    }


def compute_burst_share(jobs: Sequence[SimJob]) -> float:
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


def measure_reactive_waits(
    jobs: Sequence[SimJob], params: Params, *, days: int
) -> NDArray[np.float64]:
    """Hours that a one-node 48 h job would wait if it became eligible: every 6 h after warm-up."""
    sim = Simulator(params, jobs)
    waits: list[float] = []
    at = synthetic.EPOCH + WARM_UP_DAYS * _DAY_S
    while at < synthetic.EPOCH + (days - 3) * _DAY_S:
        sim.advance_quietly(at)
        fork = sim.fork()
        job_id = fork.inject(SimJob(time_limit_s=_LONG_S, run_s=_LONG_S, user="probe"))
        start = fork.run_until_started(job_id, _FOREVER)
        assert start is not None, "a one-node job gets its turn"
        waits.append((start - at) / _HOUR_S)
        at += 6 * _HOUR_S + 1234
    return np.array(waits)


def test_statistics_are_those_published() -> None:
    found = compute_statistics(synthetic.generate_workload("medium", days=150))
    off = {
        n: (found[n], PUBLISHED[n])
        for n in PUBLISHED
        if abs(found[n] - PUBLISHED[n]) > TOLERANCE[n]
    }
    assert off == {}


def test_arrivals_follow_the_hours_and_the_weekdays() -> None:
    jobs = synthetic.generate_workload("medium", days=140)
    submit = np.array([j.submit - synthetic.EPOCH for j in jobs])
    by_hour = np.bincount(submit // 3600 % 24, minlength=24) / len(jobs)
    by_day = np.bincount(submit // 86400 % 7, minlength=7) / len(jobs)
    assert np.corrcoef(by_hour, synthetic.HOUR_SHARE)[0, 1] > 0.95
    assert np.corrcoef(by_day, synthetic.WEEKDAY_SHARE)[0, 1] > 0.7


@pytest.mark.parametrize("preset", synthetic.PRESETS)
def test_every_week_offers_the_load_of_the_preset(preset: str) -> None:
    jobs = synthetic.generate_workload(preset, days=42, seed=5)
    work = np.zeros(6)
    for j in jobs:
        if j.cancel_at is None:
            work[min(5, (j.submit - synthetic.EPOCH) // (7 * 86400))] += j.nodes * j.run_s
    load = work[synthetic.PRESETS[preset].build_up_weeks :] / (76 * 7 * 86400)
    assert load == pytest.approx(synthetic.PRESETS[preset].load, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "least_h", "most_h"), [("light", 0.1, 2), ("medium", 2, 12), ("heavy", 12, 35)]
)
def test_reactive_interruption_falls_into_the_class_of_the_preset(
    preset: str, least_h: float, most_h: float
) -> None:
    hours = measure_reactive_waits(synthetic.generate_workload(preset, days=40), Params(), days=40)
    assert least_h <= hours.mean() <= most_h
    if preset != "heavy":
        assert np.mean(hours < 0.05) > 0.3, "a spike at zero"
        assert np.quantile(hours, 0.9) > 2 * hours.mean(), "and a long tail"


def test_the_same_seed_gives_the_same_jobs_and_another_others() -> None:
    one = synthetic.generate_workload("light", days=7, seed=1)
    assert one == synthetic.generate_workload("light", days=7, seed=1)
    assert one != synthetic.generate_workload("light", days=7, seed=2)


def test_no_job_is_wider_than_the_machine() -> None:
    assert max(j.nodes for j in synthetic.generate_workload("heavy", nodes=8, days=30)) <= 8


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(InputError, match="no preset 'calm': use one of light, medium, heavy"):
        synthetic.generate_workload("calm")
