"""jobs: `start` is when a job ran; when one was cancelled that never did is `cancelled_at`.

Accounting gives a job that was cancelled while it waited its end as its start, and that was stored.
Sums of waits left such jobs out already, so none is counted anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0140"
down_revision = "0130"

_NEVER_STARTED = ("CANCELLED", "DEADLINE", "REVOKED")
_GOES_ON_OR_RAN = (
    *("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    *("CONFIGURING", "RUNNING", "COMPLETING", "STOPPED", "SUSPENDED", "SIGNALING"),
    *("STAGE_OUT", "RESIZING", "COMPLETED"),
)

_jobs = sa.table("jobs", *map(sa.column, ("state", "start", "end", "cancelled_at")))


def upgrade() -> None:
    op.add_column("jobs", sa.Column("cancelled_at", sa.BigInteger()))
    op.add_column("queue_now", sa.Column("plans", sa.JSON()))
    ended_at_once = sa.and_(_jobs.c.start == _jobs.c.end, _jobs.c.state.in_(_NEVER_STARTED))
    op.execute(_jobs.update().where(ended_at_once).values(start=None))
    never_ran = sa.and_(
        _jobs.c.start.is_(None), _jobs.c.end.is_not(None), _jobs.c.state.not_in(_GOES_ON_OR_RAN)
    )
    op.execute(_jobs.update().where(never_ran).values(cancelled_at=_jobs.c.end))
