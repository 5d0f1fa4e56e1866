"""A workload at another load: a model that has seen one season only meets others too.

A share of the jobs is left out, or comes once more some weeks later: never earlier, since nobody
may learn in one week from jobs of the next. Who asks for what, when in the week, and for how long
it runs stay as they were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from mirage.domain.time_units import DAY_S, WEEK_S
from mirage.sim.types import SimJob

MOST = 4.0
"""Times the load; a queue that only grows teaches nothing."""
_SHORT_S = 12 * WEEK_S
_LATER = (1, 2, 3)
"""Weeks after its job that a copy comes; days in a trace of less than twelve weeks."""
_SEED = 20230213


def scale_load(jobs: Sequence[SimJob], load: float) -> list[SimJob]:
    """`load` times as many jobs, by submission; 1 are the jobs themselves.

    Copies have new ids, and lack in the first weeks and beyond the last submission: in short traces
    the load is a little less than asked. Dependencies stay as they are: they may name a job that
    was left out.
    """
    if not jobs or load == 1.0:
        return list(jobs)
    dice = np.random.default_rng(_SEED)
    stays = dice.random(len(jobs)) < load
    found = [job for job, kept in zip(jobs, stays, strict=True) if kept]
    fresh = 1 + max(job.job_id for job in jobs)
    for round_ in range(1, ceil(load)):
        again = dice.random(len(jobs)) < load - round_
        copies = _iter_copies(
            [job for job, kept in zip(jobs, again, strict=True) if kept], jobs, dice
        )
        for job in copies:
            found.append(replace(job, job_id=fresh))
            fresh += 1
    return sorted(found, key=lambda job: (job.submit, job.job_id))


def _iter_copies(
    chosen: Sequence[SimJob], jobs: Sequence[SimJob], dice: np.random.Generator
) -> Iterator[SimJob]:
    """Each of them once more, if that is before the last submission."""
    last = jobs[-1].submit
    unit_s = WEEK_S if last - jobs[0].submit >= _SHORT_S else DAY_S
    for job, later in zip(chosen, dice.choice(_LATER, len(chosen)), strict=True):
        shift_s = unit_s * int(later)
        given_up = None if job.cancel_at is None else job.cancel_at + shift_s
        if job.submit + shift_s <= last:
            yield replace(job, submit=job.submit + shift_s, cancel_at=given_up)
