"""Builds SQL for what the instants of a job's row mean. `domain.job` has the same in Python."""

from sqlalchemy import ColumnElement, case

from mirage.database.schema.tables import jobs


def build_never_ran() -> ColumnElement[bool]:
    """Build `Job.has_never_run`: the job left the queue without having run."""
    return jobs.c.cancelled_at.is_not(None)


def build_ready_at() -> ColumnElement[int]:
    """Build `compute_ready_at`: the first instant at which Slurm could have started the job."""
    return case((jobs.c.eligible > jobs.c.submit, jobs.c.eligible), else_=jobs.c.submit)


def build_waited_s() -> ColumnElement[int]:
    """Build `Job.wait_s`; NULL for a job that has not run."""
    return case((jobs.c.start < build_ready_at(), 0), else_=jobs.c.start - build_ready_at())
