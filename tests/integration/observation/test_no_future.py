"""Nothing after the instant enters: the future is changed, and the bytes compared."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mirage.observation import feature_vector
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob
from tests.support.observation.scene import (
    BEGIN,
    HOUR,
    generate_jobs,
    make_handover_input,
    play_jobs,
)

Change = Callable[[SimJob, random.Random, int, int | None], SimJob | None]
"""A job, a die, the instant, and how long the job has run by then (None: it has not started)."""


def _other_run_times(job: SimJob, rng: random.Random, at: int, elapsed: int | None) -> SimJob:
    """Of running jobs, as long as they run now; of those that wait, whatever it be."""
    del at
    least = 0 if elapsed is None else elapsed + 1
    return replace(job, run_s=least + rng.randrange(job.time_limit_s), fails=rng.random() < 0.5)


def _other_cancellations(job: SimJob, rng: random.Random, at: int, elapsed: int | None) -> SimJob:
    if job.submit > at or elapsed is not None:
        return job
    return replace(job, cancel_at=None if rng.random() < 0.5 else at + 1 + rng.randrange(HOUR))


def _other_arrivals(job: SimJob, rng: random.Random, at: int, elapsed: int | None) -> SimJob | None:
    del elapsed
    if job.submit <= at:
        return job
    if rng.random() < 0.5:
        return None
    return replace(job, submit=at + 1 + rng.randrange(HOUR), nodes=1 + rng.randrange(16))


def _changed(
    jobs: Sequence[SimJob], change: Change, simulator: Simulator, seed: int
) -> list[SimJob]:
    """Jobs that have ended, and those that were cancelled, stay as they were."""
    rng = random.Random(seed)  # noqa: S311
    at = simulator.now
    over = {r.job_id for r in simulator.list_ended_since(0)}
    started = {r.job_id: at - r.start for r in simulator.list_running() if r.start is not None}
    altered = (
        job if job.job_id in over else change(job, rng, at, started.get(job.job_id)) for job in jobs
    )
    return [job for job in altered if job is not None]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("change", [_other_run_times, _other_cancellations, _other_arrivals])
def test_another_future_gives_the_same_bytes(change: Change, seed: int) -> None:
    jobs, at = generate_jobs(seed), BEGIN + (10 + 7 * seed) * HOUR + 11
    simulator, memory = play_jobs(jobs, at)
    seen = feature_vector.observe_simulator(simulator, make_handover_input(at), memory)
    other_jobs = _changed(jobs, change, simulator, seed)
    assert other_jobs != jobs
    other, other_memory = play_jobs(other_jobs, at)
    assert (
        feature_vector.observe_simulator(other, make_handover_input(at), other_memory).tobytes()
        == seen.tobytes()
    )
    assert other.advance(at + 40 * HOUR) != simulator.advance(at + 40 * HOUR), (
        "the futures are the same"
    )


def test_another_past_gives_other_bytes() -> None:
    """The comparison above would notice."""
    jobs, at = generate_jobs(1), BEGIN + 20 * HOUR
    seen = feature_vector.observe_simulator(
        play_jobs(jobs, at)[0], make_handover_input(at), play_jobs(jobs, at)[1]
    )
    without = [job for job in jobs if job.submit != jobs[0].submit]
    simulator, memory = play_jobs(without, at)
    assert (
        feature_vector.observe_simulator(simulator, make_handover_input(at), memory).tobytes()
        != seen.tobytes()
    )
