"""links: the release that is planned in Slurm and who planned it, and who made it eligible.

decisions: when the policy expected to release. What was made eligible until now was the service's.
"""

import sqlalchemy as sa
from alembic import op

revision = "0170"
down_revision = "0160"

_links = sa.table("links", *map(sa.column, ("freed_at", "freed_by")))


def upgrade() -> None:
    op.add_column("links", sa.Column("freed_by", sa.Text()))
    op.add_column("links", sa.Column("plan_min", sa.BigInteger()))
    op.add_column("links", sa.Column("planned_release", sa.BigInteger()))
    op.add_column("links", sa.Column("planned_by", sa.Text()))
    op.add_column("decisions", sa.Column("release_at", sa.BigInteger()))
    op.execute(_links.update().where(_links.c.freed_at.is_not(None)).values(freed_by="service"))
