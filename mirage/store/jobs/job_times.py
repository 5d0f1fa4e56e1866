"""What the instants of a job's row say, in SQL; `domain.job` says the same in Python."""

from sqlalchemy import ColumnElement, case

from mirage.store.database.tables import jobs


def never_ran() -> ColumnElement[bool]:
    """`Job.never_ran`: it has left the queue without having run."""
    return jobs.c.cancelled_at.is_not(None)


def ready() -> ColumnElement[int]:
    """`Job.ready`."""
    return case((jobs.c.eligible > jobs.c.submit, jobs.c.eligible), else_=jobs.c.submit)


def waited_s() -> ColumnElement[int]:
    """`Job.waited_s`; NULL of a job that has not run."""
    return case((jobs.c.start < ready(), 0), else_=jobs.c.start - ready())
