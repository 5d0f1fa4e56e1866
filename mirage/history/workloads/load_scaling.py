"""Scales the load of a workload, so that a model learns from more loads than one season shows.

A share of the jobs is left out, or is submitted once more some weeks later. A copy is never earlier
than its job, so that no week holds information about later weeks. Requests, the time in the week
and run times stay as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from mirage.domain.time_units import DAY_S, WEEK_S
from mirage.simulator.types import SimJob

if TYPE_CHECKING:
    import numpy as np

MOST = 4.0
"""The largest factor of the load. A queue that only grows teaches nothing."""
_SHORT_S = 12 * WEEK_S
_DELAYS = (1, 2, 3)
"""A copy is submitted this many weeks after its job, or days in a trace of less than twelve weeks.
"""
_SEED = 20230213


def scale_load(jobs: Sequence[SimJob], load: float) -> list[SimJob]:
    """Return `load` times as many jobs, by submission. At load 1 the result is the jobs themselves.

    Copies have new ids. There are none in the first weeks nor after the last submission, so in
    short traces the load is a little less than asked for. Dependencies are not changed: they may
    name a job that was left out.
    """
    if not jobs or load == 1.0:
        return list(jobs)
    import numpy as np  # noqa: PLC0415 - a tenth of a second; a Tab needs MOST alone

    rng = np.random.default_rng(_SEED)
    keep_mask = rng.random(len(jobs)) < load
    scaled = [job for job, is_chosen in zip(jobs, keep_mask, strict=True) if is_chosen]
    next_id = 1 + max(job.job_id for job in jobs)
    for round_ in range(1, ceil(load)):
        repeat_mask = rng.random(len(jobs)) < load - round_
        copies = _iter_copies(
            [job for job, is_chosen in zip(jobs, repeat_mask, strict=True) if is_chosen], jobs, rng
        )
        for job in copies:
            scaled.append(replace(job, job_id=next_id))
            next_id += 1
    return sorted(scaled, key=lambda job: (job.submit, job.job_id))


def _iter_copies(
    chosen: Sequence[SimJob], jobs: Sequence[SimJob], rng: "np.random.Generator"
) -> Iterator[SimJob]:
    """Yield a copy of each job whose new submission lies before the last submission."""
    last = jobs[-1].submit
    unit_s = WEEK_S if last - jobs[0].submit >= _SHORT_S else DAY_S
    for job, delay in zip(chosen, rng.choice(_DELAYS, len(chosen)), strict=True):
        shift_s = unit_s * int(delay)
        cancel_at = None if job.cancel_at is None else job.cancel_at + shift_s
        if job.submit + shift_s <= last:
            yield replace(job, submit=job.submit + shift_s, cancel_at=cancel_at)
