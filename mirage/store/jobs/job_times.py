"""Builds what the instants of a job's row say, in SQL; `domain.job` says the same in Python."""

from sqlalchemy import ColumnElement, case

from mirage.store.database.tables import jobs


def build_never_ran() -> ColumnElement[bool]:
    """`Job.has_never_run`: it has left the queue without having run."""
    return jobs.c.cancelled_at.is_not(None)


def build_ready_at() -> ColumnElement[int]:
    """`Job.ready_at`."""
    return case((jobs.c.eligible > jobs.c.submit, jobs.c.eligible), else_=jobs.c.submit)


def build_waited_s() -> ColumnElement[int]:
    """`Job.wait_s`; NULL of a job that has not run."""
    return case((jobs.c.start < build_ready_at(), 0), else_=jobs.c.start - build_ready_at())
