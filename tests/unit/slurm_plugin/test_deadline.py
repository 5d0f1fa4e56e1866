"""MIRAGE_DEADLINE: when Slurm ends the link, or nothing."""

import time
from collections.abc import Callable

import pytest

from tests.support.slurm_plugin.fakes import Link


def test_the_deadline_is_slurms(chain: Callable[..., Link]) -> None:
    link = chain(script="#!/bin/sh\necho $MIRAGE_DEADLINE\n")
    link.slurm.job_is(101, "RUNNING", end=1234)
    assert link.run(1).stdout == b"1234\n"
    link.slurm.job_is(101, "RUNNING", end="N/A")
    assert link.run(1).stdout == b"\n"
    assert link.run(1, env={"SLURM_JOB_END_TIME": "99"}).stdout == b"99\n"


@pytest.mark.parametrize(
    ("limit_days", "squeue_says", "deadline"),
    [
        (365, "NONE", ""),
        (366, "NONE", ""),
        (400, "told", "told"),
        (365, None, ""),
        (30, "NONE", "told"),
    ],
)
def test_a_year_is_what_slurm_gives_a_job_without_a_time_limit(
    chain: Callable[..., Link], limit_days: int, squeue_says: str | None, deadline: str
) -> None:
    """Since 23.02 in its environment; one whose limit is so long has it in squeue as well."""
    link = chain(script="#!/bin/sh\necho $MIRAGE_DEADLINE\n")
    told = str(int(time.time()) + limit_days * 86400)
    if squeue_says is not None:
        link.slurm.job_is(101, "RUNNING", end=squeue_says.replace("told", told))
    done = link.run(1, env={"SLURM_JOB_END_TIME": told})
    assert done.stdout.decode() == deadline.replace("told", told) + "\n"
