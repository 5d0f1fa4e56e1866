"""A workload at another load: fewer jobs, or some once more and never earlier."""

from collections import Counter

import pytest

from mirage.history.workloads.load_scaling import scale_load
from mirage.simulator.types import SimJob

_DAY_S = 86400
SPAN = 14 * 7 * _DAY_S
JOBS = [
    SimJob(
        job_id=1 + i,
        submit=i * SPAN // 2000,
        nodes=1 + i % 4,
        time_limit_s=3600,
        run_s=60 + i,
        user=f"user{i % 7}",
        cancel_at=i * SPAN // 2000 + 50 if i % 9 == 0 else None,
    )
    for i in range(2000)
]


def test_the_logged_load_is_the_trace_itself() -> None:
    assert scale_load(JOBS, 1.0) == JOBS
    assert scale_load([], 0.5) == []


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_a_lower_load_leaves_jobs_out(load: float) -> None:
    found = scale_load(JOBS, load)
    assert len(found) == pytest.approx(load * len(JOBS), rel=0.1)
    assert set(found) < set(JOBS)
    assert found == sorted(found, key=lambda job: job.submit)


@pytest.mark.parametrize("load", [1.2, 2.5])
def test_at_a_higher_load_jobs_come_again_weeks_later(load: float) -> None:
    found = scale_load(JOBS, load)
    assert set(JOBS) < set(found)
    assert len({job.job_id for job in found}) == len(found)
    assert found == sorted(found, key=lambda job: job.submit)
    # A copy of the last three weeks may lie beyond the trace, and is left out.
    assert 0.7 * (load - 1) < len(found) / len(JOBS) - 1 < 1.05 * (load - 1)
    originals = {job.run_s: job for job in JOBS}
    shifts = Counter[int]()
    for copy in found:
        if copy.job_id > JOBS[-1].job_id:
            job = originals[copy.run_s]
            shifts[copy.submit - job.submit] += 1
            assert (copy.user, copy.nodes) == (job.user, job.nodes)
            assert (copy.cancel_at is None) == (job.cancel_at is None)
            if job.cancel_at is not None:
                assert copy.cancel_at == copy.submit + 50
            assert copy.submit <= JOBS[-1].submit
    assert set(shifts) == {7 * _DAY_S, 14 * _DAY_S, 21 * _DAY_S}


def test_nothing_before_an_instant_depends_on_what_comes_after_it() -> None:
    """Else models would learn in one week of the jobs of the next. Copies come later, see above."""
    cut = SPAN // 2
    early = [job for job in JOBS if job.submit < cut]
    assert [j for j in scale_load(early, 0.8) if j.submit < cut] == [
        j for j in scale_load(JOBS, 0.8) if j.submit < cut
    ]


def test_a_trace_of_days_has_copies_of_days() -> None:
    short = [job for job in JOBS if job.submit < 30 * _DAY_S]
    found = scale_load(short, 1.5)
    runs = {job.run_s: job.submit for job in short}
    later = {job.submit - runs[job.run_s] for job in found}
    assert later == {0, _DAY_S, 2 * _DAY_S, 3 * _DAY_S}
    assert len(found) == pytest.approx(1.5 * len(short), rel=0.1)
