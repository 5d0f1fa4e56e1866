"""The synthetic workload keeps to the published figures and to its presets' load classes."""

import numpy as np
import pytest

from benchmarks.synthetic_stats import PUBLISHED, reactive_waits, statistics
from mirage.errors import InputError
from mirage.sim.types import Params
from mirage.traces.workloads import synthetic

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


def test_statistics_are_those_published() -> None:
    found = statistics(synthetic.generate_workload("medium", days=150))
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
    hours = reactive_waits(synthetic.generate_workload(preset, days=40), Params(), days=40)
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
