"""links: when Mirage held a job, so that it lifts no hold but its own.

Of holds made before nothing but the audit tells. One is taken for Mirage's where its chain is still
paused and the audit's last word on that job is that Mirage held it: the first look at the queue
takes that back unless Slurm shows a user's hold. All others are left to whoever made them: of a
chain that was resumed before the upgrade and whose link is still held, the owner releases it
(`scontrol release`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0100"

_TOLD = ("suspend", "suspend: refused", "resume", "resume: refused")

_links = sa.table(
    "links", *map(sa.column, ("chain_id", "cluster_id", "job_id", "submit", "state", "held_at"))
)
_chains = sa.table("chains", sa.column("chain_id"), sa.column("state"))
_audit = sa.table(
    "audit",
    *map(sa.column, ("id", "cluster_id", "chain_id", "job_id", "actor", "event", "at")),
)


def upgrade() -> None:
    op.add_column("links", sa.Column("held_at", sa.BigInteger()))
    paused = sa.select(_chains.c.chain_id).where(_chains.c.state == "paused")
    waiting = sa.and_(_links.c.state == "pending", _links.c.chain_id.in_(paused))
    op.execute(
        _links.update().where(waiting, _last("event") == "suspend").values(held_at=_last("at"))
    )


def _last(column: str) -> sa.ScalarSelect[object]:
    """Of the audit's newest entry on a hold of the link's job."""
    return (
        sa.select(_audit.c[column])
        .where(
            _audit.c.cluster_id == _links.c.cluster_id,
            _audit.c.chain_id == _links.c.chain_id,
            _audit.c.job_id == _links.c.job_id,
            _audit.c.at >= _links.c.submit,
            _audit.c.actor == "mirage",
            _audit.c.event.in_(_TOLD),
        )
        .order_by(_audit.c.id.desc())
        .limit(1)
        .correlate(_links)
        .scalar_subquery()
    )
